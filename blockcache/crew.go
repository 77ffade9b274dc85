package blockcache

import (
	"context"
	"sync/atomic"
)

// crew is goroutines that fetch. They stay, because a fetch goes through so many
// layers that a new goroutine spends as much on growing its stack as on the rest.
type crew struct {
	ctx  context.Context // until when they stay
	work chan func()
	idle atomic.Int64
	keep int64 // how many stay at most without work
}

func newCrew(ctx context.Context, keep int) *crew {
	return &crew{ctx: ctx, work: make(chan func()), keep: int64(keep)}
}

// run has a function run, by one that is idle if there is one.
func (c *crew) run(do func()) {
	select {
	case c.work <- do:
	default:
		go c.serve(do)
	}
}

func (c *crew) serve(do func()) {
	for {
		do()
		if c.idle.Add(1) > c.keep {
			c.idle.Add(-1)
			return
		}
		select {
		case do = <-c.work:
			c.idle.Add(-1)
		case <-c.ctx.Done():
			return
		}
	}
}
