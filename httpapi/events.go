package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// eventFormat writes the events of one protocol and format. One value serves
// one connection; what it writes for a chunk depends on the chunk and on its key
// only, because others share it.
type eventFormat interface {
	// key names the format in the event cache.
	key() string
	// appendData appends the data event of a chunk's records, and tells which
	// offset it ends at: the chunk's Next, or less when the bytes in between
	// mean something only together with what follows them. Nothing is appended
	// when that is the chunk's First.
	appendData(dst []byte, c *stream.Chunk) ([]byte, stream.Offset)
	// appendControl appends the control event that follows.
	appendControl(dst []byte, p place) []byte
}

// place is how far a reader has come.
type place struct {
	next     stream.Offset // resume here
	upToDate bool          // nothing more existed
	closed   bool          // and nothing more will: the last event of the response
}

// follower is a reader about to get an event stream.
type follower struct {
	name   stream.Name
	info   stream.Info   // the stream that was located, with its tail then
	from   stream.Offset // at most info.Tail
	format eventFormat
}

// Bounds of one event: record bytes, unless one record is larger, and records,
// because they may have no bytes.
const (
	eventBytes   = 256 << 10
	eventRecords = 16 << 10
)

// serveEvents answers with an event stream: what is there, then what comes,
// until the stream ends, the client leaves, [Config.SSEMaxDuration] is over or
// the API drains. The caller has set the protocol's headers. An error is a
// refusal that can still be answered: nothing has been written.
func (a *API) serveEvents(w http.ResponseWriter, r *http.Request, f follower) error {
	if err := a.subscribe(w, eventStream); err != nil {
		return err
	}
	s := &subscription{
		api: a, follower: f, until: time.Now().Add(a.config.SSEMaxDuration),
		out: eventWriter{w: w, timeout: a.config.WriteTimeout, quietly: r.ProtoMajor > 1},
	}
	first, err := s.nextEvent(r.Context(), f.from)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", wire.TypeEventStream)
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	goOn(w, func(r *http.Request) {
		err := s.follow(r.Context(), first)
		allowWrite(w, a.config.WriteTimeout) // for what net/http ends it with
		if err != nil && r.Context().Err() == nil && !errors.Is(err, errClientStopped) && stream.CodeOf(err) == stream.CodeInternal {
			a.logInternal(w, r, err)
		}
	})
	return nil
}

// subscription is an event stream while it lasts. It belongs to one goroutine.
type subscription struct {
	follower // info is the stream as it was last seen
	api      *API
	out      eventWriter
	until    time.Time // when it ends by itself
}

// follow is the loop of an event stream: write what exists, wait for more. The
// first event is written even if it only says where the reader is. It returns
// nil when the stream or the time for it ends, and otherwise what stopped it: the
// client, or a stream that is gone.
func (s *subscription) follow(ctx context.Context, e *event) error {
	if err := s.out.event(e, s.format); err != nil {
		return err
	}
	for !e.place.closed && !s.isOver() { // also while there is more to catch up with
		at := e.place.next
		s.info.Tail = max(s.info.Tail, e.tail)
		if !e.more {
			if progress, err := s.await(ctx); !progress {
				return err
			}
		}
		var err error
		if e, err = s.nextEvent(ctx, at); err != nil {
			return s.unlessOver(err)
		}
		if e.place.next == at && !e.place.closed {
			continue // all of it is held back
		}
		if err := s.out.event(e, s.format); err != nil {
			return err
		}
	}
	return nil
}

func (s *subscription) isOver() bool {
	return s.api.draining.Err() != nil || !time.Now().Before(s.until)
}

// unlessOver is an error, unless it only says that the time is over.
func (s *subscription) unlessOver(err error) error {
	if s.isOver() && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}

// await waits for a tail past the one last seen or the end of the stream, and
// keeps the connection alive meanwhile. It reports no progress when the time of
// the response is over.
func (s *subscription) await(ctx context.Context) (progress bool, err error) {
	for {
		info, err := s.api.config.Streams.Wait(ctx, stream.WaitRequest{ID: s.info.ID, After: s.info.Tail, Until: s.alarm()})
		switch {
		case err != nil:
			return false, err
		case info.Tail > s.info.Tail || info.Closed:
			s.info = info
			return true, nil
		case s.isOver():
			return false, nil
		}
		if err := s.out.comment(); err != nil {
			return false, err
		}
	}
}

// alarm goes off when the response is over, or after some silence: three quarters
// of [Config.Keepalive] or up to all of it, so that readers who had an event
// together are not all kept alive together.
func (s *subscription) alarm() <-chan struct{} {
	step := max(s.api.config.Keepalive/alarmSteps, 1)
	early := time.Duration(s.api.spread.Add(1)%(alarmSteps/4)+1) * step
	return s.api.alarms.after(min(s.api.config.Keepalive-early, time.Until(s.until)), step)
}

// nextEvent is the event of what lies between an offset and the tail last seen.
func (s *subscription) nextEvent(ctx context.Context, at stream.Offset) (*event, error) {
	if at >= s.info.Tail {
		return &event{place: place{next: at, upToDate: s.info.StaleMillis == 0, closed: s.info.Closed}, tail: at}, nil
	}
	key := eventKey{id: s.info.ID, from: at, tail: s.info.Tail, closed: s.info.Closed, format: s.format.key()}
	if e := s.api.events.find(key); e != nil {
		return e, nil
	}
	ctx, cancel := s.api.liveContext(ctx, s.until)
	defer cancel()
	return s.api.events.get(ctx, key, func(ctx context.Context) (*event, error) {
		return s.api.encodeEvent(ctx, s.follower, at)
	})
}

// encodeEvent reads from an offset and encodes what it gets.
func (a *API) encodeEvent(ctx context.Context, f follower, at stream.Offset) (*event, error) {
	chunk, err := a.readPinned(ctx, f, at)
	if err != nil {
		return nil, err
	}
	for {
		data, next := f.format.appendData(nil, chunk)
		if next == chunk.First && !chunk.UpToDate {
			// The format cannot end anywhere in these records: it needs the ones
			// after them. That goes on for a few records at most.
			more, err := a.readPinned(ctx, f, chunk.Next)
			if err != nil {
				return nil, err
			}
			chunk = joinChunks(chunk, more)
			continue
		}
		whole := chunk.UpToDate && next == chunk.Next
		return &event{
			data:  data,
			place: place{next: next, upToDate: whole && chunk.StaleMillis == 0, closed: whole && chunk.Closed},
			tail:  chunk.Tail,
			more:  !chunk.UpToDate,
			stale: chunk.StaleMillis > 0,
		}, nil
	}
}

func (a *API) readPinned(ctx context.Context, f follower, at stream.Offset) (*stream.Chunk, error) {
	return a.config.Streams.Read(ctx, f.name, stream.ReadRequest{ID: f.info.ID, From: stream.At(at), MaxBytes: eventBytes, MaxRecords: eventRecords})
}

// joinChunks is the chunk of two that follow one another. Neither is changed.
func joinChunks(a, b *stream.Chunk) *stream.Chunk {
	joined := *b
	joined.First = a.First
	joined.Runs = append(append([]stream.Run(nil), a.Runs...), b.Runs...)
	return &joined
}

// eventWriter writes events to one client, each under a deadline of its own.
type eventWriter struct {
	w       http.ResponseWriter
	timeout time.Duration
	quietly bool // a deadline counts also while nothing is written
}

// joinedEvent is the largest data event that is copied, to leave in one write
// together with its control event. Larger ones fill several packets and frames
// in any case; they are written from the shared bytes, so that a slow client
// holds no copy of them.
const joinedEvent = 16 << 10

// eventBuffers hold what is joined while it is written, so that readers that
// wait hold none.
var eventBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// event writes a data event, if there is one, and its control event.
func (o *eventWriter) event(e *event, format eventFormat) error {
	buffer := eventBuffers.Get().(*bytes.Buffer)
	defer eventBuffers.Put(buffer)
	buffer.Reset()
	if len(e.data) > joinedEvent {
		return o.write(e.data, format.appendControl(buffer.AvailableBuffer(), e.place))
	}
	buffer.Write(e.data)
	buffer.Write(format.appendControl(buffer.AvailableBuffer(), e.place))
	return o.write(buffer.Bytes())
}

// comment writes a line that readers ignore.
func (o *eventWriter) comment() error { return o.write(wire.AppendComment(nil, "keep-alive")) }

// errClientStopped says that a client has gone, or takes nothing more: its own
// affair, and no fault to log.
var errClientStopped = errors.New("the client takes no more events")

// write sends parts and leaves nothing in a buffer.
func (o *eventWriter) write(parts ...[]byte) error {
	if err := writePieces(o.w, o.timeout, parts...); err != nil {
		return fmt.Errorf("%w: %w", errClientStopped, err)
	}
	if err := http.NewResponseController(o.w).Flush(); err != nil {
		return fmt.Errorf("%w: %w", errClientStopped, err)
	}
	if o.quietly {
		awaitQuietly(o.w)
	}
	return nil
}
