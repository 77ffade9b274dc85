// Package commands is the closed set of commands: every change that PicoMQ
// ever makes is one of these values, appended to the log by a node and applied
// by every node.
//
// # The set
//
//	kind             fields                                    proposed by        changes                              refused when
//	 1 RegisterNode  cluster, node, incarnation, address,      a starting node    node table; its index is the epoch   another cluster; level too low
//	                 level, release, previous
//	 2 CommitSegment sequence, size, appends in columns,       a node, after its  tails, extents, producers, closed    each append alone: no such stream,
//	                 producers, creates, given up              put is durable     flags, names of creates inside       duplicate, stale epoch, closed, gap,
//	                                                                                                                   condition, Stream-Seq; the whole: its
//	                                                                                                                   sequence was given up or used
//	 3 Create        name, config, closed, fork                a request          a new stream under a free name; a    the name is taken by another
//	                                                                              fork takes its parent's extents      configuration (same: not new); the
//	                                                                                                                   parent is gone, trimmed or too short
//	 4 Close         id, producer, match, stream-seq           a request          closed flag, producer                as an append
//	 5 Trim          id, to, upkeep                            a request;         start, clamped to the tail; extents; no such stream
//	                                                           retention          by a request also the idle deadline
//	 6 Delete        id                                        a request          the stream goes, the name is free,   no such stream
//	                                                                              unless forks of it live
//	 7 Touch         ids                                       reads, in batches  idle deadlines restart               ids that are gone are skipped
//	 8 Expire        ids                                       a request past a   those past their deadline go         ids not due at this log time stay
//	                                                           deadline, the sweep
//	 9 Tick          -                                         the lease holder   log time and active time move        never
//	10 Checkpoint    index, digest                             every node         nothing; compares digests            the digest differs: Diverged
//	11 Activate      level, release                            an operator's act  the feature level                    the level does not grow; a live
//	                                                                                                                   node does not understand it
//	12 Doom          slots                                     collection         dead segments can not be referred   those with extents, doomed before or
//	                                                                              to any more                          not there are skipped
//	13 Collected     slots                                     collection, when   doomed segments go, their slots      those not doomed are skipped
//	                                                           objects are gone   are free
//	14 Pack          sequence, size, level, oldest, newest,    compaction, after  the segment table                    its sequence was given up or used;
//	                 first, last, given up                     its put is durable                                      times or streams out of order
//	15 Swap          slot, sequence, runs in columns           compaction         extents, references of segments      the packed segment is not there, not
//	                                                                                                                   of the proposer's epoch, or doomed;
//	                                                                                                                   each run alone: its extents changed
//	16 Depart        node, epoch                               a node that ends;  the node is gone, its number free    the epoch is not the node's, or it
//	                                                           the lease holder,                                       is gone already
//	                                                           for one that
//	                                                           stays away
//
// Every command but a registration is refused as fenced when its origin's
// epoch is not the newest of its node or the node is gone, and ignored when its origin's sequence
// is not above the highest applied for that epoch.
//
// # The wire
//
// A log row's payload is CBOR (RFC 8949), so that any CBOR tool reads it
// without this package, in one fixed form:
//
//	payload   {1: format version = 1, 2: proposer's clock in ms, 3: [proposal, …]}
//	proposal  {1: node, 2: epoch, 3: sequence, 4: [command, …]}
//	command   [kind, version, {field number: value, …}]
//
// Maps are of indefinite length with integer keys ascending; a field with its
// zero value is left out. Integers are in their shortest form. A string is text
// if it is UTF-8 and a byte string if not, so whatever a client sent, its row can
// be read. The columns of CommitSegment and Swap are byte strings of LEB128
// varints, laid out in their comments.
// A (kind, version) that was released never changes what it means or how it is
// written; a field is added by a new version. One function per command names
// its fields once and serves both directions, so the two cannot drift apart.
//
// Decoding checks every length against the bytes that remain before it
// allocates, refuses unknown kinds, versions and fields, duplicate and
// unordered keys and trailing bytes, and never panics.
package commands
