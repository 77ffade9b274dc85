package commands

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/picomq/picomq/stream"
)

// RowID is the random name of one log row, never 0. Each row carries its
// predecessor's, so a log that lost its tail and grew another is noticed: the
// same index then has another row id.
type RowID int64

// Position is an index and which row stands there. The zero value is before
// the first row.
type Position struct {
	Index Index
	Row   RowID
}

// String prints index#row.
func (p Position) String() string { return fmt.Sprintf("%d#%016x", p.Index, uint64(p.Row)) }

// Row is one row of the log as stored.
type Row struct {
	Index        Index
	ID           RowID
	Previous     RowID // the ID of the row at Index-1; 0 for the first row
	DatabaseTime stream.Time
	Payload      []byte // an encoded [Payload]
	Origin       Origin // under which it was inserted
	Summary      Summary
}

// Position is the row's place.
func (r Row) Position() Position { return Position{Index: r.Index, Row: r.ID} }

// Insert asks the log for one more row.
type Insert struct {
	Origin  Origin
	Payload []byte // an encoded [Payload] of 1 to MaxPayload bytes
	// Applied is the last row that the proposer applied. The log refuses the
	// insert when that row is not there any more: with [ErrTruncated] when it
	// was truncated and others after it, otherwise with [ErrLostTail]. The zero
	// Position is before the first row.
	Applied Position
	Summary Summary
	// Parts are what several nodes asked to be inserted, at least two, when one
	// inserts for others: the payload then holds the proposals of all of them, and
	// Origin, with Applied, is that of the first. Empty: the payload is Origin's.
	Parts []Part
}

// Part is one node's share of an insert.
type Part struct {
	Origin  Origin
	Applied Position // the last row that its node applied; see [Insert.Applied]
	// Digest is the [PayloadDigest] of the payload that the node would have
	// inserted by itself: how it recognises what it asked for.
	Digest uint64
}

// Shares are the parts of an insert, one if it is for its proposer alone.
func (in *Insert) Shares() []Part {
	if len(in.Parts) > 0 {
		return in.Parts
	}
	return []Part{{Origin: in.Origin, Applied: in.Applied, Digest: PayloadDigest(in.Payload)}}
}

// Summary is what a person at a SQL prompt sees of a payload.
type Summary struct {
	Kinds    string // kind names and counts: "commit 3 touch 1"
	Commands int
	Appends  int
}

// Inserted is where a row came to stand.
type Inserted struct {
	Position
	Previous     RowID
	DatabaseTime stream.Time
}

// Snapshot is the log's record of one snapshot object in the bucket.
type Snapshot struct {
	Index     Index
	Digest    Digest
	Key       string
	Bytes     int64
	Taken     stream.Time
	Confirmed bool // by another node's digest or a replay; only then it may be installed
}

// ArchiveDigest names an archive object by what it holds; the object after it
// carries it. Zero stands before the first object.
type ArchiveDigest [32]byte

// String is the digest in hexadecimal.
func (d ArchiveDigest) String() string { return hex.EncodeToString(d[:]) }

// Archive is the log's record of its rows that are in the bucket, and of those
// that are only there. Truncated.Index <= Head.Index always; the zero value is
// a log of which nothing was archived.
type Archive struct {
	Head   Position      // the last row that is in an archive object
	Key    string        // of the object that holds it; "" before the first
	Digest ArchiveDigest // of that object
	// Announced is the last row of the object after it, once that was decided
	// and until it is written: whoever writes it writes the same. 0: nothing is.
	Announced Index
	// Truncated is the last row that left the log: those after it are there.
	Truncated Position
}

// Heartbeat is what a node last told about itself. It decides nothing.
type Heartbeat struct {
	Node             NodeID
	Epoch            Epoch
	Incarnation      Incarnation
	Address, Release string
	Applied          Index
	At               stream.Time // database time, set by the log
	AgeMs            int64       // since then when it was read, by the same clock; set by the log
}

// Lease is the right to do something.
type Lease struct {
	Name   string
	Holder Holder
	LeftMs int64 // until it runs out, by the database's clock; negative: it did
}

// Holder is who holds a lease: one process start of a node.
type Holder struct {
	Node  NodeID
	Epoch Epoch
}

// What an insert that failed means. An error of a log's Append matches exactly
// one of these with errors.Is, or, when it matches none, [ErrTruncated]
// included, the insert was refused for good and wrote nothing.
var (
	// ErrNotSent: nothing was written, and the same insert may be tried again.
	ErrNotSent = errors.New("the log row was not written")
	// ErrUnknown: the row may have been written or not, and may still be
	// written by a statement that is under way. Look its origin up and repeat
	// the insert under the same origin: only one of the two can succeed.
	ErrUnknown = errors.New("whether the log row was written is unknown")
	// ErrDuplicateOrigin: a row with this origin is in the log already.
	ErrDuplicateOrigin = errors.New("a log row with this origin exists")
	// ErrLostTail: the log is not the one that the proposer applied; it is a
	// [*LostTailError].
	ErrLostTail = errors.New("the log lost rows that were applied")
)

// ErrDamaged is a log that contradicts itself: an index is missing, a row does
// not name its predecessor, a payload does not match its digest. Reading again
// gives the same.
var ErrDamaged = errors.New("the log is damaged")

// ErrTruncated is a row asked for, or applied last by a proposer, that left the
// log after it was archived; it is a [*TruncatedError].
var ErrTruncated = errors.New("the log is truncated")

// TruncatedError names the first row that the log still holds. Those before it
// are in the archive.
type TruncatedError struct {
	After Index // rows after this one were asked for
	First Index // the first kept row; the log may end before it
}

// Error names the rows that are gone.
func (e *TruncatedError) Error() string {
	return fmt.Sprintf("%v: rows %d to %d are only in the archive", ErrTruncated, e.After+1, e.First-1)
}

// Is makes the error match [ErrTruncated].
func (e *TruncatedError) Is(target error) bool { return target == ErrTruncated }

// LostTailError says that the log does not hold a row that this node applied:
// the database was restored from an older copy, or failed over to a replica
// that lacked commits.
type LostTailError struct {
	Applied Position // what the node applied last
	Found   RowID    // the row now at Applied.Index; 0 when there is none
	Head    Position // the log's last row
}

// Error names the range of rows that is lost or in doubt.
func (e *LostTailError) Error() string {
	if e.Head.Index < e.Applied.Index {
		return fmt.Sprintf("%v: rows %d to %d are gone (applied up to %v, the log ends at %v): restore the database to a state that has them",
			ErrLostTail, e.Head.Index+1, e.Applied.Index, e.Applied, e.Head)
	}
	return fmt.Sprintf("%v: rows up to %d were replaced by others (applied %v, the log has %v there and ends at %v): restore the database to a state that has them",
		ErrLostTail, e.Applied.Index, e.Applied, Position{Index: e.Applied.Index, Row: e.Found}, e.Head)
}

// Is makes the error match [ErrLostTail].
func (e *LostTailError) Is(target error) bool { return target == ErrLostTail }

// PayloadDigest is the XXH64 of an encoded payload. The log keeps it beside the
// origin, so that a foreign row under one's own origin is recognised.
func PayloadDigest(payload []byte) uint64 { return xxhash.Sum64(payload) }

// Summary counts what the payload holds.
func (p *Payload) Summary() Summary {
	var counts [256]int
	var s Summary
	for i := range p.Proposals {
		for _, c := range p.Proposals[i].Commands {
			counts[c.Kind()]++
			s.Commands++
			if m, ok := c.(*CommitSegment); ok {
				s.Appends += int(m.Count)
			}
		}
	}
	var kinds []string
	for k, n := range counts {
		if n > 0 {
			kinds = append(kinds, fmt.Sprintf("%v %d", Kind(k), n))
		}
	}
	s.Kinds = strings.Join(kinds, " ")
	return s
}
