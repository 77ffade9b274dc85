package stream

import "fmt"

// ID is the number of a stream, never reused: 16 bits of log, 48 bits dense
// within that log, counted from 1. Zero means "not known yet".
type ID uint64

const denseBits = 48

// MakeID joins a log number and a dense number (1 to 2^48-1).
func MakeID(log uint16, dense uint64) ID {
	return ID(uint64(log)<<denseBits | dense&(1<<denseBits-1))
}

// Log is the number of the log that the stream lives in.
func (id ID) Log() uint16 { return uint16(id >> denseBits) }

// Dense is the stream's number within its log.
func (id ID) Dense() uint64 { return uint64(id) & (1<<denseBits - 1) }

// Offset is the position of a record in its stream, counted from 0.
type Offset uint64

// MaxOffset bounds offsets so that each prints in 16 decimal digits.
const MaxOffset Offset = 9_999_999_999_999_998

// Time is a moment in Unix milliseconds.
type Time int64

// Header is one name and value that a record carries beside its body. Both are
// UTF-8; order and repeats are kept.
type Header struct {
	Name, Value string
}

// Record is one message.
type Record struct {
	Headers []Header
	Body    []byte
}

// Producer names one request of an idempotent producer: the sequence counts
// requests, not records. Epoch and Seq are at most [MaxProducerNumber].
type Producer struct {
	ID    string
	Epoch uint64
	Seq   uint64
}

// Bounds on what names a producer.
const (
	MaxProducerID            = 256 // bytes
	MaxProducerNumber uint64 = 1<<53 - 1
	MaxStreamSeq             = 1024 // bytes of a Stream-Seq value
	MaxContentType           = 256  // bytes
)

// ExpiryKind says how a stream expires.
type ExpiryKind uint8

// The kinds of expiry. The zero value is a stream that stays.
const (
	ExpiresNever ExpiryKind = iota
	ExpiresIdle             // when neither read nor written for TTL seconds
	ExpiresAt               // at an instant, whatever happens
)

// Expiry is when a stream goes by itself. Only the field of its kind is set.
type Expiry struct {
	Kind ExpiryKind
	TTL  uint64 // seconds, for ExpiresIdle; 0 expires at once; at most MaxTTL
	At   Time   // for ExpiresAt
}

// MaxTTL is the longest sliding expiry in seconds; its milliseconds still fit
// the integers that JSON readers keep exactly.
const MaxTTL uint64 = (1<<53 - 1) / 1000

// Retention bounds what a stream keeps: records beyond either bound are trimmed
// in the background. A zero field states no bound, so the server's own applies.
type Retention struct {
	Age   uint64 // seconds since a record was written; at most MaxTTL
	Bytes uint64 // from the tail back, as they are stored; at most MaxRetentionBytes
}

// MaxRetentionBytes is the largest bound in bytes; JSON readers keep it exactly.
const MaxRetentionBytes uint64 = 1<<53 - 1

// Config is what a stream is created with and never changes.
type Config struct {
	ContentType string // as sent, parameters included
	Expiry      Expiry
	Retention   Retention
}

// Fork says how a stream began with a part of another's history.
type Fork struct {
	Parent ID     // never reused; the parent may be gone
	From   Name   // the parent's, when the fork was made
	At     Offset // the fork offset: the records below it are the parent's
	Sub    uint64 // bytes, or messages of a JSON stream, that it has of the parent beyond At
	End    Offset // where the fork's own records begin: At, or above it where Sub is not zero
}

// Info is a stream as a reader sees it at one moment.
type Info struct {
	ID      ID
	Name    Name
	Config  Config
	Created Time
	Start   Offset // first retained
	Tail    Offset // next to be written
	Closed  bool
	Fork    *Fork  // how it began, when it is a fork; shared, not to be written to
	Forks   uint32 // live forks of it
	// StaleMillis, when positive, says that the log could not be asked and how
	// old the view is at most, in milliseconds.
	StaleMillis int64
}

// Detail is a stream as its operator sees it.
type Detail struct {
	Info
	Deleted bool // it was deleted, and its name is kept while forks of it live
	Extents int  // pieces of segments that its records lie in
}

// String prints the name for logs.
func (i Info) String() string {
	return fmt.Sprintf("%s#%d[%d,%d)", i.Name, i.ID.Dense(), i.Start, i.Tail)
}

// Meets tells whether a stream of this configuration is what a create asks for. What
// a fork leaves to be inherited, type and expiry, is whatever it was, and so is a
// bound of retention that is left out.
func (c Config) Meets(want Config, fork bool) bool {
	sameType := MediaType(c.ContentType) == MediaType(want.ContentType)
	sameExpiry := c.Expiry == want.Expiry
	if fork {
		sameType = sameType || want.ContentType == ""
		sameExpiry = sameExpiry || want.Expiry.Kind == ExpiresNever
	}
	return sameType && sameExpiry && want.Retention.Or(c.Retention) == c.Retention
}

// Or is the retention with the other's bounds where it states none.
func (r Retention) Or(other Retention) Retention {
	if r.Age == 0 {
		r.Age = other.Age
	}
	if r.Bytes == 0 {
		r.Bytes = other.Bytes
	}
	return r
}
