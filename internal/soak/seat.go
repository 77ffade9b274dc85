package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/picomq/picomq/commands"
)

// seat is the place of a node, with one life after the other.
type seat struct {
	world  *world
	random *rand.Rand
	number commands.NodeID // 0 before the first start

	mu      sync.Mutex
	life    *life // that takes requests; nil between two
	changed chan struct{}
}

func newSeat(w *world, seed uint64) *seat {
	return &seat{world: w, random: newRandom(seed), changed: make(chan struct{})}
}

// startTries is how many starts in a row may fail by faults.
const startTries = 50

// run lives until ctx ends. The last life stops in order.
func (s *seat) run(ctx context.Context) error {
	for ctx.Err() == nil {
		l, err := s.begin(ctx)
		if err != nil {
			return err
		}
		if l == nil {
			return nil
		}
		s.live(ctx, l)
		s.set(nil)
		err = l.replica.Err()
		crashed := l.crashed.Load()
		l.stop()
		if err != nil && !crashed {
			return fmt.Errorf("%v ended: %w", l, err)
		}
	}
	return nil
}

// begin starts a life; none when ctx ended.
func (s *seat) begin(ctx context.Context) (*life, error) {
	for try := 1; ; try++ {
		l, err := s.world.start(ctx, &s.number, s.random.Uint64())
		switch {
		case err == nil:
			l.maintain(s.world, s.random.IntN(3) > 0)
			s.world.tally.lives.Add(1)
			s.set(l)
			return l, nil
		case ctx.Err() != nil:
			return nil, nil
		case errors.Is(err, commands.ErrDamaged), errors.Is(err, commands.ErrLostTail), try == startTries:
			return nil, fmt.Errorf("start a node: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// live lets a life last a while, with an outage at times, and then crash or end.
func (s *seat) live(ctx context.Context, l *life) {
	crash := s.random.IntN(4) > 0
	for {
		lasts := 200*time.Millisecond + time.Duration(s.random.Int64N(int64(s.world.lifetime)))
		select {
		case <-time.After(lasts):
		case <-ctx.Done():
			if crash {
				l.arm() // while it stops
			}
			return
		case <-l.replica.Failed():
			return
		}
		if s.random.IntN(3) == 0 {
			l.outage()
			continue
		}
		if s.random.IntN(2) == 0 {
			l.departOthers(ctx)
			continue
		}
		if !crash {
			return
		}
		l.arm()
		select {
		case <-l.down:
		case <-ctx.Done():
		case <-l.replica.Failed():
		}
		return
	}
}

func (s *seat) set(l *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life = l
	close(s.changed)
	s.changed = make(chan struct{})
}

// now is the life at present, and a channel that is closed at its end.
func (s *seat) now() (*life, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life, s.changed
}

// enter waits for a life that takes a request, and begins it there.
func (s *seat) enter(ctx context.Context) (*life, error) {
	for {
		l, changed := s.now()
		if l != nil && l.enter() {
			return l, nil
		}
		select {
		case <-changed:
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
