// Package chaos runs a real cluster, breaks it in every way that it is said to
// survive, and checks every answer that anybody got.
//
//	clients ──► node 1 ──► proxy ──┐        each node ──► proxy ──► each other
//	        ──► node 2 ──► proxy ──┼─► PostgreSQL of its own
//	        ──► node 3 ──► proxy ──┘
//	               └── bucket in a folder, which all three share and which fails
//
// The nodes are processes of `picomq serve`, built with the tag failpoint so that
// their buckets can be told to fail and their clocks to be wrong. They reach each
// other, so that one inserts rows for all and bytes come from each other's memory.
//
// # What goes wrong
//
// All the time: puts and gets of the bucket are slow, very slow, fail, or are done
// and their answer lost; each life of a node has a clock that is wrong by up to five
// seconds, or hours (seat.go). In every other life maintenance is in haste, so that
// what is frozen wakes to a log and a bucket that went on without it. Now and
// then, drawn from the seed (fault.go, misfortune.go):
//
//   - kill -9, SIGTERM, SIGSTOP for a moment or for longer than every timeout
//   - connections to the database cut in the middle of a message, or held
//   - connections of the other nodes to one cut or held, while all else goes on
//   - the database stopped at once, and recovered at once or soon
//   - the bucket away for all nodes
//
// Some of it befalls just the node that inserts for all. Often two or three of these
// are under way at once; one node is always spared.
//
// # What is done meanwhile
//
// Episodes (episode.go): a stream, three clients that write to it, one that reads
// it whole and two that follow it by events and by long polls. Each call goes
// through a random node and is one request; a client with a producer sends the same
// request again, through another node, until its outcome is known. The others send
// conditional appends (Pico-Match-Seq, Stream-Seq), plain ones and closes, once.
// Some streams are deleted and made anew under their clients.
//
// # What must hold
//
//   - There is an order of all calls to a stream, in which each takes effect between
//     its begin and its end, that explains every answer: offsets, tails, refusals,
//     duplicates and whole contents. A call without an answer takes effect at any
//     time after its begin, or never. The model is in model.go; Porcupine looks for
//     the order.
//   - Each acknowledged record is there once, at its offset; none is there that was
//     refused or never sent. That follows from the first, and is checked by itself
//     for the sake of a message that names the record.
//   - Followers saw the beginning of what is there, without gap or repeat, and reach
//     its end.
//   - Streams read the same through every node.
//   - The times of records never go back, and are not ahead of the database's clock.
//   - No node ends by itself, and all are ready again when nothing is broken any more.
//   - All nodes report the same digest of their state at the same row (digest.go).
//   - `picomq fsck --deep` finds objects that nothing refers to, and nothing else.
//
// # What is measured
//
// A probe writes through every node each 20 ms, to streams in turn. The report tells
// the longest times for which none was accepted, while database, bucket and at least
// one node were up, and amid which faults (stillness.go). They depend on the machine
// and fail no test.
//
// A long run is cut into rounds with streams of their own, so that what must be
// remembered stays bounded. Faults and calls follow from the seed; how the kernel
// interleaves them does not.
package chaos
