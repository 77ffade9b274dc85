package engine

import (
	"context"
	"time"

	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// Wait returns when the stream has a record at or after r.After, is closed, or
// is gone ([stream.CodeNotFound], [stream.CodeDeleted]), or with ctx's error when ctx ends first.
// While it waits it keeps a sliding expiry alive.
func (e *Engine) Wait(ctx context.Context, r stream.WaitRequest) (stream.Info, error) {
	stale, err := e.observe(ctx)
	if err != nil {
		return stream.Info{}, err
	}
	for asked := !e.cfg.LocalReads; ; {
		woken, leave := e.hub.join(r.ID)
		st, ok := e.replica.View().Stream(r.ID)
		if !ok && !asked {
			// The view may not have come to the stream yet.
			leave()
			if stale, err = e.observeLog(ctx); err != nil {
				return stream.Info{}, err
			}
			asked = true
			continue
		}
		if !ok {
			leave()
			return stream.Info{}, refuse(stale, stream.Errorf(stream.CodeNotFound, "the stream is gone: it was deleted or has expired"))
		}
		if st.Deleted {
			leave()
			return stream.Info{}, deleted(st.Name)
		}
		if st.Tail > r.After || st.Closed {
			leave()
			return info(&st, stale), nil
		}
		err := e.park(ctx, &st, woken)
		leave()
		if err != nil {
			return stream.Info{}, err
		}
		stale = 0
	}
}

// park returns at the stream's next change, at its fixed deadline, or after it
// touched the stream; the caller looks again.
func (e *Engine) park(ctx context.Context, st *statemachine.Stream, woken <-chan struct{}) error {
	var timeout <-chan time.Time
	if wait := e.lookAgain(st); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.replica.Failed():
		return e.stopped()
	case <-timeout:
	}
	if st.Config.Expiry.Kind == stream.ExpiresIdle {
		return e.touch(ctx, st)
	}
	_, err := e.expireIfDue(ctx, st)
	return err
}

// lookAgain is how long a parked follower may sleep before expiry needs it: an
// eighth of a sliding window, or up to a fixed deadline. Zero: for ever.
func (e *Engine) lookAgain(st *statemachine.Stream) time.Duration {
	switch st.Config.Expiry.Kind {
	case stream.ExpiresIdle:
		return max(touchWindow(st), 10*time.Millisecond)
	case stream.ExpiresAt:
		_, now := e.clock()
		left := min(int64(st.Config.Expiry.At-now), time.Hour.Milliseconds())
		if left <= 0 {
			return time.Second // it is due here and not in the log: no hurry
		}
		return time.Duration(max(left, 10)) * time.Millisecond
	default:
		return 0
	}
}
