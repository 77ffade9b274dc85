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
// several of these in one; or a delete.
type write struct {
	stream  *ledger
	writer  int
	request int
	count   int // records; 0 for a bare create or close

	creates   bool
	closes    bool
	deletes   bool // the stream; nothing else is in the request
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
	return w.producer == nil && w.match == nil && w.streamSeq == "" && !w.creates && !w.deletes
}

// repeatable reports whether a request that was acknowledged can be sent again
// at any time, for the answer it had.
func (w *write) repeatable() bool {
	return w.producer != nil || w.creates && w.stream.fork != nil
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
	fork        *fork // nil for a stream that began empty

	mu      sync.Mutex // guards the next four: writers of one stream share it
	writes  map[writeKey]*write
	forks   []*ledger     // of it, sent or not
	tail    stream.Offset // the highest that anyone was told
	touched bool          // it or a fork of it was written to since the last check

	// As last read back.
	exists  bool
	gone    bool   // deleted, and said to be kept for its forks
	kept    bool   // gone, now or before
	holds   uint64 // how many live forks it is said to have
	content []seen // what a deleted stream had stays here
	closed  bool
}

func newLedger(name stream.Name, contentType string) *ledger {
	return &ledger{name: name, contentType: contentType, writes: map[writeKey]*write{}}
}

// begin notes a request before it is sent for the first time.
func (l *ledger) begin(w *write) *write {
	w.stream = l
	l.mu.Lock()
	l.writes[writeKey{w.writer, w.request}] = w
	l.mu.Unlock()
	l.touch()
	return w
}

// touch has a stream checked, and those that it comes from.
func (l *ledger) touch() {
	l.mu.Lock()
	l.touched = true
	l.mu.Unlock()
	if l.fork != nil {
		l.fork.parent.touch()
	}
}

// hear is told a tail of the stream.
func (l *ledger) hear(tail stream.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = max(l.tail, tail)
}

// heard is the highest tail that anyone was told.
func (l *ledger) heard() stream.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail
}

// lookup is the request that a record comes from; nil for none.
func (l *ledger) lookup(id recordID) *write {
	return l.writes[writeKey{id.Writer, id.Request}]
}

// closeSent reports whether anyone may have closed the stream.
func (l *ledger) closeSent() bool {
	return l.any(func(w *write) bool { return w.closes }) != nil
}

// deletion is the request that deletes the stream; nil as long as there is none.
func (l *ledger) deletion() *write {
	return l.any(func(w *write) bool { return w.deletes })
}

// any is a request of some kind, if there is one.
func (l *ledger) any(is func(*write) bool) *write {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.writes {
		if is(w) {
			return w
		}
	}
	return nil
}

// offset is a number of records as a distance between offsets.
func offset(count int) stream.Offset { return stream.Offset(count) }
