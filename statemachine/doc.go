// Package statemachine is what the command log means: a pure function that
// takes entries of the log one by one and turns them into the state of all
// streams, the same on every node and in every release.
//
//	s := statemachine.New()            // or Restore(reader)
//	outcome := s.Apply(entry)          // one goroutine, in the log's order
//	st, ok := s.View().Lookup("logs/a") // any goroutine, at any time
//
// [State.Apply] is total: whatever a decoded entry holds, it neither fails nor
// panics nor waits for anything outside. A refusal is a [Verdict] in the
// outcome and part of history. The package uses no clock, no randomness, no
// goroutine, no logger and no input or output but the reader and writer of
// snapshots, and nothing in it depends on the order of a map.
//
// # Time
//
// Two clocks move, with every entry whatever becomes of its commands:
//
//	log time     max(previous, min(database time, proposer's clock)), milliseconds since 1970
//	active time  plus the growth of log time, at most 30 s an entry, milliseconds since the first entry
//
// Records carry the log time of the entry that commits them. A sliding expiry
// is due when active time − last use ≥ TTL (at once for TTL 0), an absolute one
// when log time ≥ its instant. A stream that is due counts as absent for every
// command of the entry, but stays until an Expire names it or a Create takes
// its name. An append that creates its stream uses it before it can be due.
//
// # Who may speak
//
// A proposal's origin is (node, epoch, sequence). In this order:
//
//	node 0          exactly one RegisterNode under its incarnation's origin, else Unregistered
//	unknown node    Unregistered; so is an epoch that is not given out yet
//	older epoch     Fenced: the node registered again
//	sequence        not above the last applied of the epoch: AlreadyApplied; the first may be 1
//	gone node       Fenced
//
// Only then are the commands looked at, each accepted or refused alone.
//
// RegisterNode: the first sets the cluster, later ones must name the same. The
// epoch is the entry's index. Node 0 is given the lowest free number; a number
// that is registered passes to the newcomer and fences its predecessor, but not
// twice in one entry. With Previous it does so only if the predecessor is that
// incarnation or gone, else the newcomer is given the lowest free number. A
// registration whose incarnation is already a node's present one is answered as
// the first time.
//
// Depart: the node of that epoch is gone. Its number is free, it does not count
// for Activate, and what follows of its epoch is Fenced, or Invalid behind a
// Depart of its own in one proposal. The epoch stays known until the number is
// given out again. No such epoch, or gone already: NotFound.
//
// CommitSegment: a sequence can be used once per epoch and never after it was
// given up; GivenUp counts even when the commit itself is refused. The segment
// gets a slot, and keeps it with or without references until it is collected.
// Its appends are applied in order.
//
// # One append
//
// An append names a stream or creates one. It is checked in this order, and the
// first check that fails is its verdict; then nothing of it happens:
//
//	values within their bounds                      Invalid
//	create: the name is free, or its stream due     Exists (same media type, expiry, closed state, origin), Conflict, Deleted
//	the stream is there and not due                 NotFound
//	it was not deleted                              Deleted
//	producer of the epoch in force, seq ≤ highest   Duplicate
//	producer epoch below the one in force           FencedProducer
//	the stream is open                              Closed
//	new epoch begins at sequence 0                  EpochStart
//	sequence is the next, 0 for an unknown producer SequenceGap
//	match is the tail                               MatchFailed
//	Stream-Seq is bytewise above the last accepted  StreamSeq
//	the tail stays at or below stream.MaxOffset     Full
//
// Accepted, it happens whole: records, producer, Stream-Seq, close and the
// restart of a sliding deadline. A Close is an append of no records, and on a
// closed stream, without a producer, is accepted again if its match holds.
// Only what is accepted restarts a deadline; so do trims, but those for upkeep.
//
// # Forks
//
// A Create with a Fork makes a stream that has the records of its parent from
// the parent's start to the fork offset, or a little beyond it (Sub), under the
// same offsets: it copies the parent's extents, so each of both has its own, and
// counts them in their segments. After the checks of a create, in this order:
//
//	the parent is there and not due                 ParentGone
//	it was not deleted                              ParentDeleted
//	the type asked for is its media type            Conflict
//	the fork offset is not below its start          Trimmed
//	the fork does not end above its tail            BeyondTail
//	it has fewer than 2^32 - 1 live forks           Full
//	no cut of JSON; one of a cut record is shorter  Invalid
//
// The fork is open, has no producers and no Stream-Seq, and the parent's type
// and expiry where the create leaves them out; a sliding deadline starts anew.
// A create that meets a fork under its name compares the parent's name, the fork
// offset unless it is left out, and Sub, instead of what they were resolved to.
//
// The parent counts its live forks; nothing else of it changes, nor of its idle
// deadline. Delete of a stream with live forks keeps its name, its number, its
// media type and its own parent, and drops its records, producers and deadline:
// it is Deleted to every command. A stream that expires goes whatever forks it
// has. When a fork goes its parent counts one less, and a deleted one at zero
// goes with it, and so on upward: at most 4,096 of them in an entry. Those
// beyond count as absent, and Expire removes them.
//
// # The life of a segment
//
// A segment is an object of the bucket that a command made known: CommitSegment
// one that appends wrote, of level 0, or Pack one that compaction wrote, of a
// level of at least 1. It is named by node, epoch and sequence for ever, and by
// its slot for as long as it is known. Extents refer to it by slot.
//
//	known      in the lowest slot that is free, from 0 on
//	dead       no extent refers to it; so is a packed one before its first Swap
//	doomed     a Doom named it while it was dead: nothing ever refers to it again, its object may be deleted
//	collected  a Collected named it while it was doomed: its object is gone, its slot is free
//
// Appends refer to the segment of their own commit, forks to those of their
// parent, swaps to a packed one: no command brings a dead segment back but a
// Swap, and no Swap a doomed one. Doom and Collected pass over what is not as
// they need it; of a slot alone they cannot tell who was in it before, and need
// not: whoever is doomed is dead. At most 2^32 - 1 segments are known at a time,
// one more is Full.
//
// # Packs and swaps
//
// Pack spends a sequence of its origin's epoch like a commit, with these checks
// before: the level is not 0, 0 ≤ oldest ≤ newest ≤ log time, first ≤ last, else
// Invalid and nothing is spent or given up. Oldest and newest bound the times of
// its records, first and last the streams they were copied for.
//
// Swap puts one extent in the packed segment in place of consecutive extents of a
// stream. The segment in the slot must be the packed one of that sequence, of the
// proposer's own epoch, and not doomed, else NotFound. Then its runs are applied
// in order, each whole or not at all. A run's pieces say which extents it stands
// for, and it is applied only if
//
//   - the stream is there, due or not, and some of the run lies at or above its start;
//   - each piece at or above the start is a whole extent of it, with that offset,
//     slot, ordinal and count, and cut or not as it says, one after the other;
//   - none of these lies in the packed segment already.
//
// What was trimmed away since the run was proposed clips it: pieces below the
// start do not count, the piece that the start cuts has so many records less, and
// the extent begins at the start, with its share of the run's bytes. A cut extent
// becomes a whole one: the packed segment has the part as a record. An extent
// that then lies right behind or before its neighbour is joined to it. Records,
// offsets, times and deadlines stay as they are. The verdict is NotDue if no run
// was applied.
//
// Slots are used again, so between proposal and Apply another segment may have
// come into a piece's slot. That does no harm: a record at an offset of a stream
// never changes, so whatever extent holds it now, its copy may take its place. But
// a copy it must be: who makes it has to know that the slot held the segment that
// it reads when the extent was looked up (see [View.Holders]).
//
// # Retention
//
// A Create may state bounds by age and by bytes; those it leaves open are not
// stated, and what the server does with those is not part of the state. A fork
// inherits each bound that it leaves open. A Create that meets a stream compares
// the bounds it states, not those it leaves open. A deleted stream keeps none.
// The state trims nothing by itself: [RetentionScan] finds what is overdue, and a
// Trim for upkeep takes it without being a use of the stream.
//
// # Canonical state and digest
//
// The digest is the sum, modulo 2^64, of the XXH64 hash of every item below.
// Equal states have equal digests, however they came about, so nodes compare
// them; it is kept by subtracting what goes and adding what comes. An item is
// its tag and its words, 64 bits each, little endian; h(x) is the XXH64 of a
// string, a|b two 32-bit halves, high first.
//
//	tag  item            words
//	 1   the scalars     index, log time, active time, last dense id, slots, cluster known, cluster (2), level, h(release)
//	 2   stream, fixed   id, created, expiry kind, TTL or instant, h(name), h(content type)
//	 3   stream, moving  id, start, tail, last use, flags, h(closing producer's id) or 0, live forks
//	 4   Stream-Seq      id, h(value)
//	 5   extent          id, first, slot|ordinal, packed|bytes
//	 6   producer        id, h(producer id), epoch, seq, first, known, back[0]|back[1], back[2]|back[3]
//	 7   segment, fixed  slot|node, epoch, sequence, size, time, level, oldest, newest, first, last, doomed
//	 8   node            number, epoch, incarnation (2), h(address), level, h(release), last sequence,
//	                     used sequences, given-up sequences (chained spans)
//	 9   fork            id, parent, fork offset, sub, end, h(parent's name)
//	10   retention       id, age, bytes
//	11   segment, moving slot|extents, referenced bytes
//	12   gone node       number, epoch
//
// Slots is one more than the highest that holds a segment; empty ones below it
// are no items. Flags are 1 live, 2 closed, 4 has a Stream-Seq, 8 deleted, 16 is a fork,
// 32 has live forks, 64 states retention. Packed is four times an extent's
// count, and 2 more if its bytes are an estimate because a fork has it of a longer
// one; for a cut record it is 5, and its bytes are those of the body that count.
// Doomed is the active time, at least 1, and 0 while it is not. After every 1,024th entry the
// state remembers its digest ([CheckpointInterval]), the last 64 of them;
// Checkpoint compares a node's against it. They are no items themselves.
//
// # Concurrency
//
// Apply, Index, Digest and BeginSnapshot belong to one goroutine. Everything a
// [View] does is safe on any goroutine meanwhile. Rows are changed in place
// under a lock that 256 streams in every 65,536 share; a reader copies what it
// asked for under the read lock and waits at most for one append. Whoever holds
// the lock of a stream may take that of a segment, never the other way; so with
// an extent comes the segment that holds it. The index is published after all
// rows of its entry, so a reader that waited for index n sees the whole of entry
// n, and perhaps a part of n+1.
//
// # What readers save
//
// Beside the canonical state, and of no account for digest and snapshot, the state
// keeps what spares those who look for work a look at everything: for each page of
// 256 streams before when none of them is due ([View.Due]) and how often one
// changed ([RetentionScan]), and the last entry that changed a segment
// ([View.Segmented]). An extent's offset is not kept: it begins where the one
// before ends, the first at the start. Of a stream with many, every 64th is.
//
// # Snapshots
//
// [State.BeginSnapshot] fixes the state at an index without copying it. From
// then on Apply puts each row aside before it changes it for the first time,
// until [Snapshot.Encode] has come to its page. The bytes are a function of the
// state at the index.
//
//	snapshot  "PICOSNP", version = 1, chunk…
//	chunk     kind (u8), length (u32), payload, CRC32C of kind, length and payload (u32); little endian
//
// Chunks come in the order of their kinds: one each of scalars (1), nodes (2)
// and checkpoints (3), any number of segments (4) and streams (5), an empty end
// (6), and nothing after it. Numbers are unsigned LEB128 varints in their
// shortest form unless noted; text is a length and its bytes; a list is a count
// and its items.
//
//	scalars      log = 0, index, digest (8 bytes), log time, active time, last dense id, slots, cluster known (0, 1),
//	             cluster (16 bytes), level, release (text)
//	nodes        list of: number, epoch, incarnation (16 bytes), address (text), level, release (text), last sequence,
//	             gone (0, 1), used and given-up, each a list of: from, to
//	checkpoints  list of: index, digest (8 bytes)
//	segments     list of, by slot, empty ones as zeros: node, epoch, sequence, size, referenced, time, extents, level,
//	             oldest, newest, doomed, first, last
//	streams      list of, by id: distance to the id before (the chunk's first: to 0), name (text), content type (text),
//	             created, start, tail, flags, expiry kind;
//	             if it expires: TTL or instant (zigzag), last use;  if flag 4: Stream-Seq (text);
//	             if flag 16: parent, parent's name (text), fork offset, sub, end;  if flag 32: live forks;  if flag 64: age, bytes;
//	             extents: list of: slot (zigzag distance to the one before), ordinal, bytes, packed; offsets follow from start;
//	             producers: list of: id (text), epoch, seq, first, known (1 to 5), known − 1 distances back;
//	             closing producer's place + 1, or 0
//
// [Restore] believes nothing: it checks checksums, bounds, order, the references
// of every segment and the digest recomputed over all it read.
package statemachine
