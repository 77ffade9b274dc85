// Package combine lets one node insert rows into the log for all nodes. N nodes
// that insert each for itself wait, in turn, for N commits; what one node inserts
// for all of them shares a row, and everyone waits for one or two.
//
//	replica ─► Router ─┬─► Combiner of this node, when it has the lease ──┐
//	                   ├─► Combiner of the node that has it (Remote) ─────┼─► one row ─► log
//	                   └─► nobody: "not sent", and the replica inserts ───┘
//
// # Contract
//
// Nothing rests on who inserts. The lease only says whom to ask; several may
// believe to have it, and anyone may insert for itself at any time, because the
// log orders rows, keeps origins unique and checks each proposer's last applied
// row ([commands.Part]). So a combiner that is away, frozen or cut off costs its
// proposers the patience of one request and nothing else:
//
//	answer                        means                       the proposer then
//	a row                         it stands there             applies it
//	ErrNotSent                    it will never be inserted   inserts for itself
//	                              by that request
//	ErrUnknown, and no answer     it may stand or come to     looks its origin up and inserts for
//	                              stand                       itself under the same origin
//	ErrDuplicateOrigin            it stands there already     looks its origin up
//	ErrLostTail, ErrTruncated,    that node's log refuses it  inserts for itself: its own log
//	others                                                    may be another, and says so
//
// A row that is refused as a whole, because one of its parts is, is inserted part
// by part: each proposer gets its own answer, and none is refused for another's.
//
// Each proposal keeps the encoding and the digest that its proposer gave it, so
// that it recognises it. The row's clock is the latest of its proposers'.
//
// # Bounds
//
// A row holds at most [MaxParts] parts and [MaxBytes] of payload, unless one part
// alone has more. At most [MaxWaiting] parts wait; more are not sent.
package combine
