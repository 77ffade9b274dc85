// Package replica keeps one node's state equal to the log: it proposes
// commands, tails the log, applies every entry in order, and tells whoever
// waits what came of it.
//
//	Enqueue/Propose ──► queue ──► one row in flight ──► Log.Append
//	                                                        │ index n
//	Log.Wakeups, poll ──► Log.Read ──► rows after applied ──┤
//	                                                        ▼
//	                             State.Apply ─► publish ─► callbacks
//
// # Contract
//
//   - One goroutine, the loop, owns the state: it alone inserts, reads and
//     applies. Everyone else reads through [Replica.View].
//   - Entries are applied in order without gaps, and only if the row's
//     predecessor is the row applied before it. A mismatch is a
//     [commands.LostTailError] and ends the replica: see [Replica.Failed].
//   - Group commit: while a row is in flight proposals queue; the next row takes
//     as many as fit [Config.GroupBytes]. The queue is bounded by
//     [Config.QueueBytes]; beyond it Enqueue refuses with [stream.CodeOverloaded].
//   - With [Config.Combiner] a row may be inserted by another node, with the
//     proposals of others. What it does not answer for certain is looked up in
//     the log, and inserted by this node.
//   - An insert that failed is unknown, not failed. Its origin is looked up, the
//     payload's digest compared, and the insert repeated under the same origin,
//     until the log says that it stands or that it certainly does not. Requests
//     that give up meanwhile are told so with [stream.CodeOutcomeUnknown].
//     Proposals that were still queued are dropped after [Config.QueueTimeout]
//     with [stream.CodeUnavailable]: those certainly were not written.
//   - A callback runs on the loop after its entry was applied and published, so
//     it must not block. Results are acknowledgements: they were computed by
//     Apply from rows that are in the log.
//   - When another process registers this node's number, or a row cannot be read,
//     the replica fails for good and says why. It never serves on.
//   - When nodes report different digests of one index, nothing is acknowledged
//     until more than half of the live ones have reported one digest: those that
//     have another fail, and keep their state in the bucket for inspection. When
//     none has a majority all fail.
//
// # Starting
//
// Open installs the newest confirmed snapshot that its digest verifies, falling
// back to older ones and at last to the first row, of the archive where it left
// the log, and applies what follows up to the log's head. Register then announces this process: the index of that
// entry is its epoch.
//
// # Gone and back
//
// A node that is not heard of for long, because it was paused or cut off, is
// departed by another: from then on Apply refuses what it proposes. When it reads
// that, it registers anew, as another incarnation with another epoch, under its
// number if nobody was given it, and calls [Config.Rejoined]. What Apply refused
// meanwhile was not applied: it is proposed again under the new epoch, in its
// order, while its proposers wait. Commands that name segments cannot be, since
// sequences belong to an epoch: they are bound to theirs ([Replica.EnqueueAs]) and
// go back to their proposer with [ErrDeparted], whenever they come. A process that
// was told to be this node, or started with what it remembers, ends it instead.
//
// # Marks
//
// A running replica notices that the log lost rows it applied, and ends. So that
// the next start does not take the shorter log for whole and give the same
// offsets out again, each node keeps a mark in the bucket: the last row it
// applied, written at its start, every few seconds while the log grows, and when
// it ends. Register compares all marks with the log before it
// writes anything; a mark of a row that left the log is compared with the
// archive. Losses after the last mark are not noticed by a start. Who deletes
// objects compares the marks as well ([Replica.CompareMarks]): a database that goes
// on beside the one that replaced it is so found out.
//
// # Snapshots
//
// After [Config.SnapshotBytes] of applied rows or [Config.SnapshotAge] the
// state is encoded as of one index while Apply goes on, and written to the
// bucket. It is installed by nobody until it is confirmed: the rows since the
// last confirmed one are replayed into a second state, whose digest must be the
// one reported. The second state lives only during that check. The last
// [keepSnapshots] are kept; objects that a crash left without a row in the table
// are removed by [Replica.SweepSnapshots].
//
// # Archive and truncation
//
// The log does not grow for ever. Some node, under a lease, calls
// [Replica.Archive], which writes rows up to the newest confirmed snapshot to the
// bucket (package archive), and [Replica.Truncate], which then drops rows:
//
//	1 ─────────────── truncated ──────── oldest kept ── newest ── head - KeepRows ── head
//	                                     snapshot       snapshot
//	  only in the archive │ in the archive and the log    │ in the log
//
// Truncated never passes what is archived, the oldest of [keepSnapshots]
// confirmed snapshots, or head - [Config.KeepRows]. So each kept snapshot can be
// followed in the log, and a node that lags by fewer than KeepRows needs no archive.
//
// Both go in steps that may each be the last of their process, and may run on
// two nodes at once. Where the next object ends is decided in the log first
// (announced), so that every writer writes the same rows under the same key; the
// object is put create-only, read back and compared; then it is recorded, and
// only what is recorded can be dropped:
//
//	died after       the next call
//	announcing       writes the announced rows
//	putting          finds the object, compares it, records it
//	recording        begins the next object
//
// A node that lags further than what is kept reads what left the log from the
// archive, object by object, each to its end before a row of it is applied. What it
// had in flight is decided by what it reads there. Only when the archive cannot be
// believed it ends, and says to start it again: it then begins with a snapshot. A
// row that left cannot come twice, since the state keeps the highest sequence of
// each epoch.
package replica
