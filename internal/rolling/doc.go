// Package rolling restarts every node of a cluster, one after the other, under
// load, and looks for requests that failed meanwhile.
//
// The nodes are processes of the real binary ([Cluster]) on one Postgres and one
// bucket. Clients reach them through a [Balancer] and never hear of nodes. Two
// things are promised, and each has its test:
//
//   - Behind a balancer that asks every node whether it is ready, and sends nothing
//     new to one that is not, nothing fails that is sent once and never again:
//     appends, reads, long polls, event streams. Over HTTP/1.1 and HTTP/2.
//   - Behind one that asks nobody, and answers 502 whenever a node does not take a
//     request or breaks one off, appends with a producer succeed, because the
//     client sends them again, and are there once.
//
// The [Load] knows what it appended: at the end every stream is read through every
// node, and must hold exactly that, in the order of each writer, as must what
// readers got who followed the streams all along.
package rolling
