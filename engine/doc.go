// Package engine is the service: it creates, appends, reads, follows, closes,
// trims and deletes streams on one node, out of the log's replica, the segment
// writer and the block cache.
//
// # An append
//
//	Append ─► resolve name to ID in the view ─► segment writer groups it
//	   ▲                                             │ put is durable
//	   │                                             ▼
//	   └── result of Apply ◄── replica ◄── CommitSegment, one per segment
//
// The acknowledgement is the result that Apply computed from the row in the
// log. What was not applied was not acknowledged, so a crash leaves nothing to
// take over. Everything an append holds (its bytes until its commit is decided)
// counts against [Config.InFlightBytes]; beyond it requests are refused with
// [stream.CodeOverloaded], at once and before anything is written.
//
// # Gone and back
//
// A node that was paused for long is taken for gone: Apply refuses its commits, and
// the objects of its epoch may be deleted. When the replica has registered anew
// ([replica.Config.Rejoined]), [Engine.Rejoin] stores what was refused, and what
// was not proposed yet, again under the next epoch, if its requests still wait. What
// Apply accepted before is acknowledged, nothing else of the old epoch ever is. A
// client that retried elsewhere meanwhile with its producer's sequence makes one of
// both a duplicate.
//
// # What a read promises
//
// Reads, heads, lists and refusals first learn the log's head and wait until it
// is applied (see [replica.Replica.Sync]), so a client never reads the past.
// While the log is out of reach reads answer from the view and say how stale it
// may be; refusals and claims to be up to date are [stream.CodeUnavailable],
// and past [Config.StaleLimit] so is everything.
//
// # Reading ahead
//
// A read has the extents that it will come to fetched while it takes the first, 16
// of them at a time and no more bytes than it may return. One that goes on where
// an earlier one ended is taken for a reader of the whole stream: what follows is
// fetched while the answer is sent, twice as much each time, up to 4 MiB beyond
// it. Where reads ended is remembered in a table of 1,024 places; to forget one
// costs its reader a wait, no more.
//
// Streams that are read whole, eight or more of about consecutive numbers one after
// the other, are taken for somebody who goes through all of them. What comes next is
// then fetched from wherever it lies, neighbours in a segment with one get, at most
// two thirds of what the cache keeps for that ([blockcache.Cache.AheadMost]), of one
// stream its first 4 MiB. 32 of these are remembered for ten seconds.
//
// # Expiry
//
// The state decides by log time. The engine estimates that time to find streams
// that look due, proposes Expire, and believes the result. Reads restart a
// sliding expiry by touches, batched and flushed within an eighth of the
// window; close to the deadline the read waits for its touch. The [Hub] keeps
// touching for those who wait, once for all followers of a stream.
//
// # Following
//
// A follower holds an offset and no queue. It registers with the [Hub], looks
// again, and parks until the entry that moved the tail, closed the stream or
// removed it is published. Those that follow one stream are woken a few at a
// time, one cohort by the one before it, so that appends do not wait until the
// last of thousands has been served.
package engine
