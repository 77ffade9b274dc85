package crash

import (
	"fmt"
	"sync"

	"github.com/picomq/picomq/stream"
)

// fate is what a writer knows about a request.
type fate uint8

const (
	sent         fate = iota // no answer, or one that leaves it open
	acknowledged             // it is in the stream, at write.start
	refused                  // it is not in the stream
)

// write is one request that a writer sends: an append, a close, a create, or
// several of these in one.
type write struct {
	stream  *ledger
	writer  int
	request int
	count   int // records; 0 for a bare create or close

	creates   bool
	closes    bool
	producer  *stream.Producer
	match     *stream.Offset // the append happens only at this tail
	streamSeq string         // the append happens only above the last one; empty for none

	fate  fate
	start stream.Offset // of the first record, once acknowledged or found
	// startUnknown: acknowledged as a duplicate that does not tell its offset.
	startUnknown bool
	// lost counts the times that the request was sent and not answered; found
	// says that the check after a restart saw its effect, records or not,
	// nevertheless, at start.
	lost  int
	found bool
}

func (w *write) String() string {
	return fmt.Sprintf("request %d of writer %d to %s", w.request, w.writer, w.stream.name)
}

// sentOnce reports whether nothing tells the server that a repetition is one.
func (w *write) sentOnce() bool {
	return w.producer == nil && w.match == nil && w.streamSeq == "" && !w.creates
}

type writeKey struct{ writer, request int }

// seen is a record as it was read.
type seen struct {
	id   recordID
	time stream.Time
}

// ledger is all that is known about one stream. Writers add to it while the
// server runs; checks read it while nobody writes.
type ledger struct {
	name        stream.Name
	contentType string

	mu      sync.Mutex // guards writes: writers of one stream share it
	writes  map[writeKey]*write
	touched bool // written to since the last check

	exists  bool   // a check or an acknowledgement has shown that it does
	content []seen // as last read back
	closed  bool   // as last read back
}

func newLedger(name stream.Name, contentType string) *ledger {
	return &ledger{name: name, contentType: contentType, writes: map[writeKey]*write{}}
}

// begin notes a request before it is sent for the first time.
func (l *ledger) begin(w *write) *write {
	w.stream = l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes[writeKey{w.writer, w.request}] = w
	l.touched = true
	return w
}

// lookup is the request that a record comes from; nil for none.
func (l *ledger) lookup(id recordID) *write {
	return l.writes[writeKey{id.Writer, id.Request}]
}

// closeSent reports whether anyone may have closed the stream.
func (l *ledger) closeSent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.writes {
		if w.closes {
			return true
		}
	}
	return false
}

// offset is a number of records as a distance between offsets.
func offset(count int) stream.Offset { return stream.Offset(count) }
