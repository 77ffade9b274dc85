package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Event is one event of an event stream.
type Event struct {
	Name string // "message" when the stream names none
	// ID is the last id that the stream has given, by this event or an earlier
	// one: what to send as Last-Event-ID.
	ID   string
	Data []byte // the data lines joined with LF; valid until the next call of Next
}

// ErrEventTooLarge is returned for an event that exceeds the reader's limit.
var ErrEventTooLarge = errors.New("an event of the stream is larger than the reader allows")

// readStep is how much an EventReader asks its source for at once, in bytes.
const readStep = 32 << 10

const byteOrderMark = "\xef\xbb\xbf"

// EventReader reads events as the HTML standard defines them: lines end with
// LF, CR or CRLF, comments and unknown fields are ignored, and an event cut off
// by the end of the stream is dropped. It holds at most one event of its limit
// and one read of 32 KiB. It is for one goroutine.
type EventReader struct {
	source io.Reader
	limit  int // of the bytes of one event's lines

	buffer  []byte // bytes read and not yet taken as lines: buffer[taken:]
	taken   int
	scanned int // buffer[:scanned] is known to hold no line end beyond taken
	afterCR bool
	started bool
	end     error // of the source; what was read before it is still taken
	failed  error // what Next returned, and returns again

	event   Event
	data    []byte
	hasData bool
	size    int // of the lines of the event so far
}

// NewEventReader reads events of at most limit bytes from source.
func NewEventReader(source io.Reader, limit int) *EventReader {
	return &EventReader{source: source, limit: limit}
}

// Next is the next event. The error is [io.EOF] when the stream ended, another
// of the source, or [ErrEventTooLarge]; after it the reader is done.
func (r *EventReader) Next() (Event, error) {
	r.event.Name, r.data, r.hasData, r.size = "", r.data[:0], false, 0
	for r.failed == nil {
		line, err := r.line()
		switch {
		case err != nil:
			r.failed = err
		case r.size+len(line) > r.limit:
			r.failed = r.tooLarge()
		case len(line) > 0:
			r.size += len(line)
			r.field(line)
		default:
			if event, ok := r.dispatch(); ok {
				return event, nil
			}
		}
	}
	return Event{}, r.failed
}

func (r *EventReader) tooLarge() error {
	return fmt.Errorf("%w: more than %d bytes", ErrEventTooLarge, r.limit)
}

// dispatch ends an event at its empty line; one without data is none.
func (r *EventReader) dispatch() (Event, bool) {
	if !r.hasData {
		r.event.Name, r.size = "", 0
		return Event{}, false
	}
	event := r.event
	if event.Name == "" {
		event.Name = "message"
	}
	event.Data = r.data
	return event, true
}

func (r *EventReader) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) { // empty for a comment
	case "event":
		r.event.Name = string(value)
	case "data":
		if r.hasData {
			r.data = append(r.data, '\n')
		}
		r.data = append(r.data, value...)
		r.hasData = true
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			r.event.ID = string(value)
		}
	}
}

// line takes the next line without its end. A CR ends a line at once; the LF
// that may follow it is dropped when it arrives.
func (r *EventReader) line() ([]byte, error) {
	for {
		r.dropBetweenLines()
		if at := bytes.IndexAny(r.buffer[r.scanned:], "\r\n"); at >= 0 {
			at += r.scanned
			line := r.buffer[r.taken:at]
			r.afterCR = r.buffer[at] == '\r'
			r.taken, r.scanned = at+1, at+1
			return line, nil
		}
		r.scanned = len(r.buffer)
		switch {
		case len(r.buffer)-r.taken > r.limit-r.size:
			return nil, r.tooLarge()
		case r.end != nil:
			return nil, r.end
		}
		r.fill()
	}
}

// dropBetweenLines drops what belongs to no line: the LF of a CRLF, and the
// byte order mark that a stream may begin with.
func (r *EventReader) dropBetweenLines() {
	rest := r.buffer[r.taken:]
	if r.afterCR && len(rest) > 0 {
		r.afterCR = false
		if rest[0] == '\n' {
			r.taken++
		}
	}
	if !r.started && len(rest) > 0 {
		if len(rest) < len(byteOrderMark) && strings.HasPrefix(byteOrderMark, string(rest)) {
			return // it may still become one
		}
		r.started = true
		if bytes.HasPrefix(rest, []byte(byteOrderMark)) {
			r.taken += len(byteOrderMark)
		}
	}
	r.scanned = max(r.scanned, r.taken)
}

// fill reads once from the source, after moving what is left to the front.
func (r *EventReader) fill() {
	left := copy(r.buffer, r.buffer[r.taken:])
	r.scanned -= r.taken
	r.taken = 0
	if cap(r.buffer)-left < readStep {
		grown := make([]byte, left, 2*left+readStep)
		copy(grown, r.buffer[:left])
		r.buffer = grown
	}
	n, err := r.source.Read(r.buffer[left : left+readStep])
	r.buffer = r.buffer[:left+n]
	r.end = err
}
