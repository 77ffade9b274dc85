package engine

import (
	"context"
	"time"

	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// Wait returns when the stream has a record at or after r.After, is closed, or
// is gone ([stream.CodeNotFound], [stream.CodeDeleted]), or with ctx's error when ctx ends first.
// When r.Until is closed first it returns the stream as it is then. While it waits
// it keeps a sliding expiry alive.
//
// Many wait at a time, so that it holds little while it does: no timer, and small
// frames on its stack.
func (e *Engine) Wait(ctx context.Context, r stream.WaitRequest) (stream.Info, error) {
	stale, err := e.observe(ctx)
	if err != nil {
		return stream.Info{}, err
	}
	for over := false; ; stale = 0 {
		joined := e.hub.join(r.ID) // before looking, so that no change is missed
		i, attention, err := e.awaited(ctx, r.ID, stale)
		if err != nil || over || i.Tail > r.After || i.Closed {
			e.hub.leave(r.ID, joined)
			if over && attention > 0 {
				_, err = e.attend(ctx, r.ID) // short waits must keep it alive, too
			}
			return i, err
		}
		if attention > 0 {
			e.hub.keep(r.ID, joined, attention)
		}
		over, err = e.park(ctx, joined.woken, r.Until)
		e.hub.leave(r.ID, joined)
		if err != nil {
			return stream.Info{}, err
		}
	}
}

// park returns when the stream has changed, or the time is over.
func (e *Engine) park(ctx context.Context, woken, until <-chan struct{}) (over bool, err error) {
	select {
	case <-woken:
		return false, nil
	case <-until:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	case <-e.replica.Failed():
		return true, e.stopped()
	}
}

// awaited is a stream that somebody waits for, and when its expiry needs attention.
func (e *Engine) awaited(ctx context.Context, id stream.ID, stale time.Duration) (stream.Info, time.Duration, error) {
	st, ok := e.replica.View().Stream(id)
	if !ok && e.cfg.LocalReads {
		// The view may not have come to the stream yet.
		var err error
		if stale, err = e.observeLog(ctx); err != nil {
			return stream.Info{}, 0, err
		}
		st, ok = e.replica.View().Stream(id)
	}
	switch {
	case !ok:
		return stream.Info{}, 0, refuse(stale, stream.Errorf(stream.CodeNotFound, "the stream is gone: it was deleted or has expired"))
	case st.Deleted:
		return stream.Info{}, 0, deleted(st.Name)
	}
	return info(&st, stale), e.attention(&st), nil
}

// tend attends to a stream for all its followers, and returns when that is next.
func (e *Engine) tend(id stream.ID) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.AppendTimeout)
	defer cancel()
	next, err := e.attend(ctx, id)
	switch {
	case e.stopped() != nil:
		return 0
	case err != nil:
		e.cfg.Logger.Warn("the expiry of a followed stream could not be attended to; it is tried again", "stream", id, "error", err)
	}
	return next
}

// attend does what the expiry of a followed stream needs: it restarts a sliding
// one, and carries out one that is due, so that followers learn of it. It returns
// when that is next, also with an error.
func (e *Engine) attend(ctx context.Context, id stream.ID) (next time.Duration, err error) {
	st, ok := e.replica.View().Stream(id)
	if !ok {
		return 0, nil
	}
	if st.Config.Expiry.Kind == stream.ExpiresIdle {
		err = e.touch(ctx, &st)
	} else {
		_, err = e.expireIfDue(ctx, &st)
	}
	return e.attention(&st), err
}

// attention is after how long a followed stream has to be tended: an eighth of a
// sliding window, or at a fixed deadline. Zero: never.
func (e *Engine) attention(st *statemachine.Stream) time.Duration {
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
