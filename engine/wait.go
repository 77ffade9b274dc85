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
// Many wait at a time, so that it holds little while it does: no timer except for
// a stream that expires, and small frames on its stack.
func (e *Engine) Wait(ctx context.Context, r stream.WaitRequest) (stream.Info, error) {
	stale, err := e.observe(ctx)
	if err != nil {
		return stream.Info{}, err
	}
	for over := false; ; stale = 0 {
		joined := e.hub.join(r.ID) // before looking, so that no change is missed
		i, sleep, err := e.awaited(ctx, r.ID, stale)
		if err != nil || over || i.Tail > r.After || i.Closed {
			e.hub.leave(r.ID, joined)
			return i, err
		}
		end, err := e.park(ctx, joined.woken, r.Until, sleep)
		e.hub.leave(r.ID, joined) // before anything that takes time
		if err != nil {
			return stream.Info{}, err
		}
		over = end == parkedUntil
		if end == parkedLong {
			if err := e.keepAlive(ctx, r.ID); err != nil {
				return stream.Info{}, err
			}
		}
	}
}

// awaited is a stream that somebody waits for, and how long they may before its
// expiry needs them.
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
	return info(&st, stale), e.lookAgain(&st), nil
}

// parkEnd is what ended a park.
type parkEnd uint8

const (
	parkedWoken parkEnd = iota // the stream changed
	parkedUntil                // the request's time is over
	parkedLong                 // its expiry needs the stream
)

// park returns when something has to be looked at. A sleep of 0 is for ever.
func (e *Engine) park(ctx context.Context, woken, until <-chan struct{}, sleep time.Duration) (parkEnd, error) {
	var timeout <-chan time.Time
	if sleep > 0 {
		timer := time.NewTimer(sleep)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-woken:
		return parkedWoken, nil
	case <-until:
		return parkedUntil, nil
	case <-timeout:
		return parkedLong, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-e.replica.Failed():
		return 0, e.stopped()
	}
}

// keepAlive does for a stream what its expiry needs of a follower: it restarts a
// sliding one, and carries out one that is due.
func (e *Engine) keepAlive(ctx context.Context, id stream.ID) error {
	st, ok := e.replica.View().Stream(id)
	if !ok {
		return nil // which the caller finds out
	}
	if st.Config.Expiry.Kind == stream.ExpiresIdle {
		return e.touch(ctx, &st)
	}
	_, err := e.expireIfDue(ctx, &st)
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
