package upkeep

import (
	"context"
	"sync"
	"time"

	"github.com/picomq/picomq/internal/seldom"
)

// job is one kind of maintenance.
type job interface {
	// backlog is how much there is to do, in the job's own unit, as far as the
	// state shows it. It is cheap.
	backlog() uint64
	// step does a bounded piece of it. more says that another is to be done now, or
	// with an error soon, since a part of this one was done.
	step(ctx context.Context, now time.Time) (more bool, err error)
}

// Status is how a job is doing.
type Status struct {
	Job     string
	Backlog uint64    // what there is to do; the unit is the job's
	Done    time.Time // when it last had nothing left to do; zero: never
	Steps   uint64    // that succeeded
	Failed  uint64    // that did not
	Error   string    // why the last step failed; empty after one that succeeded
}

// Pauses after a step that failed.
const (
	leastPause   = time.Second
	longestPause = time.Minute
)

// runner runs one job.
type runner struct {
	job
	name  string
	every time.Duration // from the end of one pass to the next
	wait  time.Duration // from the start to the first pass
	// blind says that the state does not show whether there is something to do, so
	// that the job is done without a backlog.
	blind bool
	// limit is how long a step may take; 0: it bounds each of its calls itself.
	limit  time.Duration
	outage *seldom.Outage // a step failed, and none worked since

	mu     sync.Mutex
	status Status
	pause  time.Duration // before the next step; 0 after one that succeeded
	next   time.Time     // when to look at the job again; zero: it was not looked at
}

func newRunner(name string, every time.Duration, j job) *runner {
	return &runner{job: j, name: name, every: every, status: Status{Job: name}}
}

// try does a step, within its time.
func (r *runner) try(ctx context.Context, now time.Time) (more bool, err error) {
	if r.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.limit)
		defer cancel()
	}
	return r.step(ctx, now)
}

// due tells whether it is time to do the job and there may be something to do.
func (r *runner) due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next.IsZero() {
		r.next = now.Add(r.wait)
	}
	return !now.Before(r.next) && (r.blind || r.backlog() > 0)
}

// finished notes how a step ended.
func (r *runner) finished(now time.Time, more bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.status
	switch {
	case err != nil:
		s.Failed++
		s.Error = err.Error()
		r.pause = min(max(2*r.pause, leastPause), longestPause)
		if more { // it gets on: a service that fails now and then only slows it down
			r.pause = leastPause
		}
		r.next = now.Add(r.pause)
		return
	case more:
		r.next = now
	default:
		s.Done = now
		r.next = now.Add(r.every)
	}
	s.Steps++
	s.Error, r.pause = "", 0
}

func (r *runner) look() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Backlog = r.backlog()
	return s
}
