package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// maxTouches bounds the touches that wait to be flushed; past it a read waits
// for its own.
const maxTouches = 1 << 18

// touchWindow is how long a touch may be held back: an eighth of the TTL.
func touchWindow(st *statemachine.Stream) time.Duration {
	return time.Duration(st.Config.Expiry.TTL) * time.Second / 8
}

// touch restarts a stream's sliding expiry. It waits for the log only when the
// deadline is close: when less than a quarter of the window is left.
func (e *Engine) touch(ctx context.Context, st *statemachine.Stream) error {
	if st.Config.Expiry.Kind != stream.ExpiresIdle {
		return nil
	}
	active, _ := e.clock()
	window := int64(st.Config.Expiry.TTL) * 1000
	if left := st.Touched + window - active; left >= window/4 && e.toucher.add(st.ID, touchWindow(st)) {
		return nil
	}
	_, err := e.propose(ctx, &commands.Touch{IDs: []stream.ID{st.ID}})
	return err
}

// toucher collects touches and proposes them in batches, each within its
// window. Touches that fail are dropped: the next read touches again.
type toucher struct {
	replica *replica.Replica
	logger  *slog.Logger
	kick    chan struct{} // capacity 1: the next flush moved forward
	stop    chan struct{}
	done    sync.WaitGroup

	mu    sync.Mutex
	ids   map[stream.ID]struct{}
	flush time.Time // when the earliest window ends; meaningful while ids is not empty
}

func newToucher(r *replica.Replica, logger *slog.Logger) *toucher {
	t := &toucher{replica: r, logger: logger, kick: make(chan struct{}, 1), stop: make(chan struct{}), ids: make(map[stream.ID]struct{})}
	t.done.Go(t.run)
	return t
}

// close writes the touches that wait and waits for the log.
func (t *toucher) close(ctx context.Context) error {
	close(t.stop)
	t.done.Wait()
	for ids := t.take(); len(ids) > 0; {
		n := min(len(ids), commands.MaxIDs)
		if _, err := t.replica.Propose(ctx, &commands.Touch{IDs: ids[:n:n]}); err != nil {
			return fmt.Errorf("touch %d streams that were read: %w", len(ids), err)
		}
		ids = ids[n:]
	}
	return nil
}

// add notes a touch, or reports that there is no room.
func (t *toucher) add(id stream.ID, window time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.ids[id]; ok {
		return true // its window began with the earlier touch
	}
	if len(t.ids) == maxTouches {
		return false
	}
	due := time.Now().Add(window)
	if len(t.ids) == 0 || due.Before(t.flush) {
		t.flush = due
		select {
		case t.kick <- struct{}{}:
		default:
		}
	}
	t.ids[id] = struct{}{}
	return true
}

// next is how long to sleep, and whether anything waits.
func (t *toucher) next() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.flush), len(t.ids) > 0
}

func (t *toucher) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, pending := t.next()
		if !pending {
			wait = time.Hour
		}
		timer.Reset(max(wait, 0))
		select {
		case <-t.stop:
			return
		case <-t.kick:
		case <-timer.C:
			t.propose()
		}
	}
}

// take removes all touches that wait.
func (t *toucher) take() []stream.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := make([]stream.ID, 0, len(t.ids))
	for id := range t.ids {
		ids = append(ids, id)
	}
	clear(t.ids)
	return ids
}

// propose flushes all touches that wait: those not due yet ride along.
func (t *toucher) propose() {
	for ids := t.take(); len(ids) > 0; {
		n := min(len(ids), commands.MaxIDs)
		err := t.replica.Enqueue([]commands.Command{&commands.Touch{IDs: ids[:n:n]}}, func(replica.Decision, error) {})
		if err != nil {
			t.logger.Warn("touches were dropped", "streams", len(ids), "error", err)
			return
		}
		ids = ids[n:]
	}
}
