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
	release, err := a.subscribe(eventStream)
	if err != nil {
		return err
	}
	defer release()
	markLive(w)
	first, err := a.nextEvent(r.Context(), f, f.from, f.info)
	if err != nil {
		return err
	}
	ctx, cancel := a.liveContext(r, a.config.SSEMaxDuration)
	defer cancel()
	h := w.Header()
	h.Set("Content-Type", wire.TypeEventStream)
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := &eventWriter{w: w, timeout: a.config.WriteTimeout}
	err = a.follow(ctx, out, f, first)
	if err != nil && ctx.Err() == nil && !errors.Is(err, errClientStopped) && stream.CodeOf(err) == stream.CodeInternal {
		a.logInternal(w, r, err)
	}
	return nil
}

// follow is the loop of an event stream: write what exists, wait for more. The
// first event is written even if it only says where the reader is. It returns
// nil at the end of the stream, and otherwise what stopped it: the context, the
// connection, or a stream that is gone.
func (a *API) follow(ctx context.Context, out *eventWriter, f follower, e *event) error {
	seen := f.info
	if err := out.event(e, f.format); err != nil {
		return err
	}
	for !e.place.closed {
		if err := ctx.Err(); err != nil {
			return err // also while there is more to catch up with
		}
		at := e.place.next
		seen.Tail = max(seen.Tail, e.tail)
		var err error
		if !e.more {
			if seen, err = a.awaitEvent(ctx, out, f.info.ID, seen.Tail); err != nil {
				return err
			}
		}
		if e, err = a.nextEvent(ctx, f, at, seen); err != nil {
			return err
		}
		if e.place.next == at && !e.place.closed {
			continue // all of it is held back
		}
		if err := out.event(e, f.format); err != nil {
			return err
		}
	}
	return nil
}

// nextEvent is the event of what lies between an offset and the tail last seen.
func (a *API) nextEvent(ctx context.Context, f follower, at stream.Offset, seen stream.Info) (*event, error) {
	if at >= seen.Tail {
		return &event{place: place{next: at, upToDate: seen.StaleMillis == 0, closed: seen.Closed}, tail: at}, nil
	}
	key := eventKey{id: f.info.ID, from: at, tail: seen.Tail, closed: seen.Closed, format: f.format.key()}
	return a.events.get(ctx, key, func(ctx context.Context) (*event, error) {
		return a.encodeEvent(ctx, f, at)
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

// awaitEvent waits for a tail past after or the end of the stream, and keeps
// the connection alive meanwhile.
func (a *API) awaitEvent(ctx context.Context, out *eventWriter, id stream.ID, after stream.Offset) (stream.Info, error) {
	for {
		quiet, cancel := context.WithTimeout(ctx, a.config.Keepalive)
		info, err := a.config.Streams.Wait(quiet, stream.WaitRequest{ID: id, After: after})
		silent := timeOver(quiet, err)
		cancel()
		if !silent || ctx.Err() != nil {
			return info, err
		}
		if err := out.comment(); err != nil {
			return info, err
		}
	}
}

// eventWriter writes events to one client, each under a deadline of its own.
type eventWriter struct {
	w       http.ResponseWriter
	timeout time.Duration
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
	awaitQuietly(o.w)
	return nil
}
