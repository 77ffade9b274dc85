package engine

import (
	"context"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// observe makes the view as new as the log was when it was called. A positive
// stale says that the log could not be asked and how old the view may be.
func (e *Engine) observe(ctx context.Context) (stale time.Duration, err error) {
	if e.cfg.LocalReads {
		return 0, e.stopped()
	}
	return e.observeLog(ctx)
}

// observeLog is observe, also when reads are local: before a refusal.
func (e *Engine) observeLog(ctx context.Context) (stale time.Duration, err error) {
	if e.replica.SyncNow() {
		return 0, nil
	}
	call, cancel := context.WithTimeout(ctx, e.cfg.SyncTimeout)
	defer cancel()
	if e.replica.Sync(call) == nil {
		return 0, nil
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err := e.stopped(); err != nil {
		return 0, err
	}
	stale = e.replica.Stale()
	if stale > e.cfg.StaleLimit {
		return 0, stream.Errorf(stream.CodeUnavailable, "the log has been out of reach for %v, longer than reads are answered without it", stale.Round(time.Second))
	}
	return max(stale, time.Millisecond), nil
}

func (e *Engine) stopped() error {
	if e.replica.Err() != nil {
		return stream.Errorf(stream.CodeUnavailable, "this node has stopped serving; try another, or try again")
	}
	return nil
}

// refuse is a refusal, unless it would rest on a view that may be stale.
func refuse(stale time.Duration, err *stream.Error) *stream.Error {
	if stale > 0 {
		return stream.Errorf(stream.CodeUnavailable, "the log is out of reach, so this cannot be answered for sure: %s", err.Message)
	}
	return err
}

func deleted(name stream.Name) *stream.Error {
	return stream.Errorf(stream.CodeDeleted, "the stream %q was deleted; its name is kept while forks of it live", name)
}

func notFound(name stream.Name) *stream.Error {
	return stream.Errorf(stream.CodeNotFound, "there is no stream %q", name)
}

// lookup is the stream bound to name in the view, as new as stale says. A
// stream that looks due is expired for good first. A nonzero id pins it.
func (e *Engine) lookup(ctx context.Context, name stream.Name, id stream.ID, stale time.Duration) (statemachine.Stream, error) {
	st, ok := e.replica.View().Lookup(name)
	if !ok || (id != 0 && st.ID != id) {
		return st, refuse(stale, notFound(name))
	}
	gone, err := e.expireIfDue(ctx, &st)
	if err != nil {
		return st, err
	}
	if gone {
		return st, refuse(stale, notFound(name))
	}
	if st.Deleted {
		return st, refuse(stale, deleted(name))
	}
	return st, nil
}

// current is the stream that an append to name would meet. It asks the log only
// when the view says that there is none to append to: Apply decides the rest.
func (e *Engine) current(ctx context.Context, name stream.Name) (statemachine.Stream, error) {
	if st, ok := e.replica.View().Lookup(name); ok && !e.due(&st) && !st.Deleted {
		return st, e.stopped()
	}
	return e.settled(ctx, name)
}

// settled is the stream bound to name, certain enough to refuse on.
func (e *Engine) settled(ctx context.Context, name stream.Name) (statemachine.Stream, error) {
	stale, err := e.observeLog(ctx)
	if err != nil {
		return statemachine.Stream{}, err
	}
	return e.lookup(ctx, name, 0, stale)
}

// due tells whether a stream looks past its deadline, or was deleted and lost its
// last fork.
func (e *Engine) due(st *statemachine.Stream) bool {
	if st.Config.Expiry.Kind == stream.ExpiresNever && !st.Deleted {
		return false
	}
	active, now := e.clock()
	return st.ExpiredAt(active, now)
}

// expireIfDue proposes Expire for a stream that looks due, and reports whether
// the state agreed. If not, st is read anew.
func (e *Engine) expireIfDue(ctx context.Context, st *statemachine.Stream) (gone bool, err error) {
	if !e.due(st) {
		return false, nil
	}
	before := e.cfg.Now()
	d, err := e.propose(ctx, &commands.Expire{IDs: []stream.ID{st.ID}})
	if err != nil {
		return false, err
	}
	e.learn(before, d.Time)
	fresh, ok := e.replica.View().Stream(st.ID)
	if ok {
		*st = fresh
	}
	return !ok, nil
}

// info is a stream as readers see it.
func info(st *statemachine.Stream, stale time.Duration) stream.Info {
	i := st.Info()
	i.StaleMillis = stale.Milliseconds()
	return i
}
