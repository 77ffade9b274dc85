// Package upkeep is the work that nobody asks for and appends never feel. It
// gives back what time has made useless, so that a server which runs for years
// holds in memory, in SQL and in the bucket what its streams need and no more.
//
//	job        what it does                                              at most at once
//	expire     moves time, removes streams past their deadline           4,096 streams a command
//	retain     trims what is older, or more, than is kept                1,024 streams a command
//	compact    rewrites many small segments into few large ones          one packed segment in memory
//	collect    dooms dead segments, deletes their objects after a grace  4,096 segments a command
//	orphans    deletes objects that no command will ever refer to        one listed page
//	archive    copies log rows into the bucket, drops them from SQL      one archive object
//	nodes      departs nodes that stay away, forgets those that are gone  one look at all beats
//
// # Whose work it is
//
// One node of a cluster does all of it, the holder of a lease, and asks for the
// lease only when there is something to do. The lease only saves work: every
// command proposed here is checked again by Apply, every object is written
// create-only and deleted only once nothing can refer to it, so two holders do no
// harm. Nothing is remembered between passes but where a scan went on and what
// need not be looked at again: after a crash at any point the next pass finds what
// is left in the state and the bucket.
//
// # What may be deleted
//
// The object of a segment goes when the log has said that nothing can refer to
// the segment (Doom) and a grace for readers is over. An object that the log does
// not know goes when it never will: the log has fenced the start of the node that
// wrote it, or has given its sequence up. Of what the log knows and has not doomed
// nothing is deleted, by no job and in no order of crashes.
//
// Neither goes when the log lacks a row that any node, by its mark in the bucket,
// applied: then another database goes on beside this one, and its streams may need
// what none need here.
//
// # Bounds
//
// Each job runs on a goroutine of its own, one bounded step at a time; compaction
// gives way before it reads or writes: see [Config.Bandwidth]. Deletes run 8 at a time and at
// most 1,000 a second. A comparison of bucket and log holds 32 bytes a segment
// while it runs, retention 65,536 notes of what it need not read again and one for
// every 256 streams. What nobody uses costs a look at each 256 streams, every second
// while some can expire and every ten where some may be too old or too many. A step
// that fails is repeated after a pause that doubles up to a minute, what is
// wrong with one object holds up no other, and the job's [Status] says why.
package upkeep
