package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/picomq/picomq/stream"
)

// subscribe counts a live reader until release is called. One above
// [Config.MaxSubscribers] is refused with [stream.CodeOverloaded].
func (a *API) subscribe(kind subscriberKind) (release func(), err error) {
	if a.subscribers.Add(1) > int64(a.config.MaxSubscribers) {
		a.subscribers.Add(-1)
		return nil, stream.Errorf(stream.CodeOverloaded,
			"this node already has %d live readers; try again later or at another node", a.config.MaxSubscribers)
	}
	gauge := a.config.Metrics.subscribers.WithLabelValues(string(kind))
	gauge.Inc()
	return func() {
		gauge.Dec()
		a.subscribers.Add(-1)
	}, nil
}

// liveContext is done when the client has gone, after d, or when the API
// drains. It costs no goroutine.
func (a *API) liveContext(r *http.Request, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), d)
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

// awaitMore waits for what a long poll waits for: a tail past after, or the end
// of the stream. It reports more = false when the time is over or the API
// drains: the answer is then what there was before. A client that has gone also
// gets more = false, and whatever is written to it goes nowhere.
func (a *API) awaitMore(r *http.Request, id stream.ID, after stream.Offset) (more bool, err error) {
	release, err := a.subscribe(longPoll)
	if err != nil {
		return false, err
	}
	defer release()
	ctx, cancel := a.liveContext(r, a.config.LongPollTimeout)
	defer cancel()
	_, err = a.config.Streams.Wait(ctx, stream.WaitRequest{ID: id, After: after})
	if timeOver(ctx, err) {
		return false, nil
	}
	return err == nil, err
}

// timeOver tells whether a wait ended with its context, and not with an answer
// or a refusal.
func timeOver(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}
