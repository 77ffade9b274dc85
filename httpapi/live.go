package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/picomq/picomq/stream"
)

// subscribe counts a live reader until its response is over. One above
// [Config.MaxSubscribers] is refused with [stream.CodeOverloaded].
func (a *API) subscribe(w http.ResponseWriter, kind subscriberKind) error {
	if a.subscribers.Add(1) > int64(a.config.MaxSubscribers) {
		a.subscribers.Add(-1)
		return stream.Errorf(stream.CodeOverloaded,
			"this node already has %d live readers; try again later or at another node", a.config.MaxSubscribers)
	}
	e := w.(*exchange) // which every handler is given
	e.live, e.subscribed = true, kind
	a.config.Metrics.subscribers.WithLabelValues(string(kind)).Inc()
	return nil
}

func (a *API) unsubscribe(e *exchange) {
	if e.subscribed != "" {
		a.config.Metrics.subscribers.WithLabelValues(string(e.subscribed)).Dec()
		a.subscribers.Add(-1)
	}
}

// liveContext is done when the client has gone, at a time, or when the API
// drains. It costs no goroutine, but too much for readers that only wait: they
// use [alarms].
func (a *API) liveContext(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithDeadline(ctx, until)
	detach := context.AfterFunc(a.draining, cancel)
	if a.draining.Err() != nil {
		cancel() // now, and not when the function gets to run
	}
	return ctx, func() {
		detach()
		cancel()
	}
}

// locate finds where a live reader begins, and whether it may: the refusals of
// a read come from here, while there is still a status to give. The chunk's
// First is the position, and its Info the stream. It counts as a read for a
// sliding expiry.
func (a *API) locate(ctx context.Context, name stream.Name, from stream.Position) (*stream.Chunk, error) {
	return a.config.Streams.Read(ctx, name, stream.ReadRequest{From: from, MaxBytes: 1, MaxRecords: 1})
}

// readOrWait is what a long poll answers: what exists, or else what comes in time.
func (a *API) readOrWait(w http.ResponseWriter, r *http.Request, name stream.Name, request stream.ReadRequest) (*stream.Chunk, error) {
	chunk, err := a.config.Streams.Read(r.Context(), name, request)
	if err != nil || len(chunk.Runs) > 0 || chunk.Closed {
		return chunk, err
	}
	more, err := a.awaitMore(w, r, chunk.ID, chunk.Next)
	if err != nil || !more {
		return chunk, err
	}
	// The same stream from the same place, whatever the tail is now. One read decides
	// what is answered: data that came with the close is never left behind.
	request.ID, request.From = chunk.ID, stream.At(chunk.Next)
	return a.config.Streams.Read(r.Context(), name, request)
}

// awaitMore waits for what a long poll waits for: a tail past after, or the end
// of the stream. It reports more = false when the time is over or the API
// drains: the answer is then what there was before. A client that has gone also
// gets more = false, and whatever is written to it goes nowhere.
func (a *API) awaitMore(w http.ResponseWriter, r *http.Request, id stream.ID, after stream.Offset) (more bool, err error) {
	if err := a.subscribe(w, longPoll); err != nil {
		return false, err
	}
	over := a.alarms.after(a.config.LongPollTimeout, max(a.config.LongPollTimeout/alarmSteps, 1))
	info, err := a.config.Streams.Wait(r.Context(), stream.WaitRequest{ID: id, After: after, Until: over})
	if err != nil && r.Context().Err() != nil {
		return false, nil
	}
	return err == nil && (info.Tail > after || info.Closed), err
}
