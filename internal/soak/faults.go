package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
)

// Chances of a call, and what they do to it.
const (
	chanceBefore = 0.01 // that it fails and is not done
	chanceAfter  = 0.01 // that it is done and fails
	chanceSlow   = 0.02 // that it takes up to slowest longer
	slowest      = 20 * time.Millisecond
	// longestOutage is how long all calls to the bucket, or to the log, may fail.
	longestOutage = 400 * time.Millisecond
)

var (
	errCrashed  = errors.New("the process is gone")
	errInjected = errors.New("injected")
)

// faults decides what becomes of each call that one life of a node makes. It is
// safe for concurrent use.
type faults struct {
	calm    *atomic.Bool // no faults any more
	counted *tally

	mu       sync.Mutex
	random   *rand.Rand
	armed    bool // the next call is the last one
	bucketUp time.Time
	logUp    time.Time

	crashed atomic.Bool
	down    chan struct{} // closed by the crash
}

func newFaults(w *world, seed uint64) *faults {
	return &faults{calm: &w.calm, counted: &w.tally, random: newRandom(seed), down: make(chan struct{})}
}

// newRandom is the dice of a seed.
func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x50414b)) }

// arm lets the process die at its next call.
func (f *faults) arm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
}

// outage lets all calls to the bucket or to the log fail for a while.
func (f *faults) outage() {
	f.mu.Lock()
	defer f.mu.Unlock()
	until := time.Now().Add(time.Duration(f.random.Int64N(int64(longestOutage))))
	if f.random.IntN(2) == 0 {
		f.bucketUp = until
	} else {
		f.logUp = until
	}
	f.counted.outages.Add(1)
}

// fate is what becomes of one call.
type fate struct {
	delay         time.Duration
	before, after error
}

// decide draws a call's fate. up is when the service of the call is back.
func (f *faults) decide(up *time.Time) (d fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crashed.Load() {
		return fate{before: errCrashed}
	}
	if f.armed {
		f.crashed.Store(true)
		close(f.down)
		f.counted.crashes.Add(1)
		if f.random.IntN(2) == 0 {
			return fate{before: errCrashed}
		}
		return fate{after: errCrashed}
	}
	if f.calm.Load() {
		return fate{}
	}
	chance := f.random.Float64()
	switch {
	case time.Now().Before(*up), chance < chanceBefore:
		d.before = errInjected
	case chance < chanceBefore+chanceAfter:
		d.after = errInjected
	case chance < chanceBefore+chanceAfter+chanceSlow:
		d.delay = time.Duration(f.random.Int64N(int64(slowest)))
	}
	if d.before != nil || d.after != nil {
		f.counted.faults.Add(1)
	}
	return d
}

// plan is the bucket's.
func (f *faults) plan(op faultbucket.Op) faultbucket.Decision {
	d := f.decide(&f.bucketUp)
	out := faultbucket.Decision{Delay: d.delay}
	if d.before != nil {
		out.Before = &faultbucket.Error{Op: op, Code: gcerrors.Unknown}
	}
	if d.after != nil {
		out.After = &faultbucket.Error{Op: op, Code: gcerrors.Unknown, Lost: true}
	}
	return out
}

// call makes one call to the log.
func call[T any](ctx context.Context, f *faults, name string, do func() (T, error)) (answer T, err error) {
	d := f.decide(&f.logUp)
	if d.delay > 0 {
		select {
		case <-time.After(d.delay):
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
	if d.before != nil {
		return answer, fmt.Errorf("%s: %w: %w", name, commands.ErrNotSent, d.before)
	}
	answer, err = do()
	if err == nil && d.after != nil {
		var none T
		return none, fmt.Errorf("%s: the answer was lost: %w: %w", name, commands.ErrUnknown, d.after)
	}
	return answer, err
}
