package replica

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/picomq/picomq/commands"
)

// Sync makes sure that the view holds everything that the log held when Sync
// was called. With an exclusive log that is always so. One query of the head
// serves all callers that came before it started. The error means that the log
// could not be asked or did not come in time: see [Replica.Stale].
func (r *Replica) Sync(ctx context.Context) error {
	if err := r.Err(); err != nil {
		return err
	}
	if r.SyncNow() {
		return nil
	}
	head, asked, err := r.heads.learn(ctx, r.queryHead)
	if err != nil {
		return err
	}
	if err := r.WaitApplied(ctx, head); err != nil {
		return err
	}
	r.freshen(asked)
	return nil
}

// SyncNow is Sync where that need not ask or wait, and tells whether it was: the
// log is exclusive and the replica has not ended.
func (r *Replica) SyncNow() bool {
	if !r.log.Exclusive() || r.Err() != nil {
		return false
	}
	r.freshen(r.clock())
	return true
}

// WaitApplied returns when the view holds an index.
func (r *Replica) WaitApplied(ctx context.Context, index commands.Index) error {
	for {
		r.mu.Lock()
		progress := r.progress
		r.mu.Unlock()
		if r.Applied() >= index {
			return nil
		}
		select {
		case r.pull <- struct{}{}:
		default:
		}
		select {
		case <-progress:
		case <-r.failed:
			return r.Err()
		case <-ctx.Done():
			return fmt.Errorf("row %d is not applied yet: %w", index, ctx.Err())
		}
	}
}

// Applied is the index of the last applied entry.
func (r *Replica) Applied() commands.Index { return commands.Index(r.appliedIndex.Load()) }

// queryHead asks the log for its head, and ends the replica when that is behind
// what was applied before the question, or another row in its place. It also tells
// when it asked.
func (r *Replica) queryHead() (head commands.Index, asked time.Duration, err error) {
	before, asked := r.position(), r.clock()
	at, err := r.readHead(context.Background())
	if err != nil {
		return 0, 0, err
	}
	if at.Index < before.Index || (at.Index == before.Index && at.Row != before.Row) {
		err := lostTail(before, at)
		r.fail(err)
		return 0, 0, err
	}
	return at.Index, asked, nil
}

// headQueries shares head queries: at most one runs, and the next serves all
// who came while it ran.
type headQueries struct {
	mu      sync.Mutex
	next    *headQuery
	running bool
}

type askHead func() (head commands.Index, asked time.Duration, err error)

type headQuery struct {
	done  chan struct{}
	index commands.Index
	asked time.Duration // when, since the start
	err   error
}

func (h *headQueries) learn(ctx context.Context, ask askHead) (commands.Index, time.Duration, error) {
	h.mu.Lock()
	if h.next == nil {
		h.next = &headQuery{done: make(chan struct{})}
	}
	q := h.next
	if !h.running {
		h.running = true
		go h.run(ask)
	}
	h.mu.Unlock()
	select {
	case <-q.done:
		return q.index, q.asked, q.err
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
}

func (h *headQueries) run(ask askHead) {
	for {
		h.mu.Lock()
		q := h.next
		h.next = nil
		if q == nil {
			h.running = false
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()
		q.index, q.asked, q.err = ask()
		close(q.done)
	}
}
