package stream

// CreateRequest asks for a stream. With records it happens whole or not at
// all: the stream is never seen without them.
type CreateRequest struct {
	Config  Config
	Closed  bool // created closed; Records are the whole content, but for what a fork inherits
	Records []Record
	// Fork makes the stream begin with another's history. An empty content type is
	// then the parent's, and an expiry of [ExpiresNever] the parent's.
	Fork *ForkRequest
	// Parse, when set, is called for the Records once the content type is known that
	// a fork inherits; Records is empty then.
	Parse func(contentType string) ([]Record, error)
	// JSONChecked says that every body is known to be one valid JSON value, so
	// that a JSON stream need not check it again.
	JSONChecked bool
}

// ForkRequest asks for a stream that begins with another's records.
type ForkRequest struct {
	From Name
	At   *Offset // from the parent's start to its tail; nil: its tail
	// Sub goes beyond At: bytes of the record there, or messages of a JSON stream.
	// Above zero it needs At.
	Sub uint64
}

// Created answers a CreateRequest.
type Created struct {
	Info
	New bool // false: it existed with the same configuration; nothing was appended
}

// AppendRequest asks for records at the end of a stream, all or none, and for
// closing it. Without records and with Close it only closes.
type AppendRequest struct {
	// ContentType, when not empty, must have the stream's media type.
	ContentType string
	Records     []Record
	JSONChecked bool      // as in CreateRequest
	Producer    *Producer // nil: not idempotent
	Match       *Offset   // the append happens only if the tail is exactly here
	StreamSeq   *string   // must be bytewise greater than the last accepted one
	Close       bool
}

// Appended answers an AppendRequest.
type Appended struct {
	First      Offset // of the first record; for a duplicate only if FirstKnown
	FirstKnown bool
	Next       Offset // the tail after it
	Time       Time   // that the records carry
	Closed     bool   // the stream is closed now
	Duplicate  bool   // acknowledged before; nothing was written
	Producer   Producer
}

// PositionKind says how a Position is meant.
type PositionKind uint8

// The kinds of position.
const (
	FromOffset PositionKind = iota // Offset, exactly
	FromStart                      // the first retained record
	FromTail                       // Back records before the tail, clamped to the start; 0 is the tail
	FromTime                       // the first record at or after Time
)

// Position is where a read begins.
type Position struct {
	Kind   PositionKind
	Offset Offset
	Back   uint64
	Time   Time
}

// At is the position of an offset.
func At(o Offset) Position { return Position{Kind: FromOffset, Offset: o} }

// ReadRequest asks for records that exist.
type ReadRequest struct {
	// ID, when not zero, pins the stream: if the name is bound to another, the
	// answer is [CodeNotFound].
	ID   ID
	From Position
	// MaxBytes bounds the bodies and headers returned, in bytes; at least one
	// record is returned whatever its size. MaxRecords of 0 means no bound of its
	// own.
	MaxBytes   int
	MaxRecords int
}

// Chunk answers a ReadRequest: the records of [First, Next).
type Chunk struct {
	Info     // of the stream when the chunk was read
	First    Offset
	Next     Offset // resume here
	Runs     []Run  // in order, together exactly the records of [First, Next)
	UpToDate bool   // nothing more existed
}

// AtEnd tells whether the chunk reaches the end of a closed stream.
func (c *Chunk) AtEnd() bool { return c.UpToDate && c.Closed }

// WaitRequest asks to be told when a stream has something after an offset.
type WaitRequest struct {
	ID    ID // required: the stream that was read
	After Offset
	// Until, unless it is nil, ends the wait when it is closed. Waits that end at
	// the same time share one, which costs less than a context for each.
	Until <-chan struct{}
}

// ListRequest asks for a page of names in byte order.
type ListRequest struct {
	Prefix     string // of the name; empty for all
	StartAfter Name   // exclusive
	Limit      int
}

// Page answers a ListRequest.
type Page struct {
	Streams []Info
	More    bool
}
