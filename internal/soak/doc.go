// Package soak lets whole nodes live a hard life in one process and checks that
// nothing is lost and nothing is left over.
//
// # A soak
//
// One node stands on a SQLite file, or two share a log in memory; the bucket is a
// folder of its own. All bounds are tiny, so that in a minute everything is
// compacted, collected, archived and truncated that would be in a year.
//
//	workers    create, append, trim, fork, close, delete and read their own streams (worker.go),
//	           and check every answer against a model of what must be there (model.go)
//	faults     any call to bucket or log fails before it is done, or is done and its answer lost,
//	           or is slow; at times all of them fail for a while (faults.go)
//	crashes    at any call a node is dropped: from then on all its calls fail, and the next start
//	           of the node takes over what it left (seat.go)
//	departures a node that shares the log is said to be gone, dead or alive (depart.go)
//	jobs       run all the time, in a node as in production or one step after the other (life.go)
//
// # What must hold at the end
//
// When faults are off and the jobs have come to rest (settle.go):
//
//   - every stream reads as its model says, also after one more start;
//   - no segment is dead, no expired stream is left, small segments are few;
//   - the bucket holds the segments of the catalogue, the snapshots and archive
//     objects of the log, identity, markers and marks, and nothing else;
//   - SQL holds no more rows than it is to keep and those after the last snapshot;
//   - the archive and the rows after it, applied from the first one on, come to the
//     digests of the snapshots.
//
// # A month
//
// [Month] moves the clock by hand through thirty days of many streams, most of
// them idle, with the same checks at the end.
//
// What workers do, and which calls fail, follows from the seed; how goroutines
// interleave does not.
package soak
