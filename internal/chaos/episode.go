package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/stream"
)

// Bounds of an episode. They keep a history short enough to be checked in
// milliseconds: an unknown outcome doubles what has to be tried.
const (
	writers       = 3
	callsOfWriter = 12
	followers     = 2
	mostAttempts  = 40
	mostUnknown   = 8 // in a stream that is deleted meanwhile, whose end tells little
)

// episode is one stream: a few clients that write to it at the same time, each
// call through any node, and a few that follow it.
type episode struct {
	run     *run
	history *history
	mortal  bool // it is deleted and made anew meanwhile
	random  *rand.Rand

	unknown   atomic.Int64  // calls, whose outcome is
	tail      atomic.Uint64 // as last heard; for conditional appends
	seq       atomic.Uint64 // the last Stream-Seq given out
	followers [followers]*follower
}

func newEpisode(r *run, name stream.Name, random *rand.Rand) *episode {
	e := &episode{run: r, history: &history{name: name, began: r.began}, random: random, mortal: random.IntN(4) == 0}
	if !e.mortal {
		for i := range e.followers {
			e.followers[i] = &follower{name: name, polls: i%2 == 1}
		}
	}
	return e
}

// live lets the clients work until they are through. The end of ctx hastens it.
func (e *episode) live(ctx context.Context) error {
	if !e.make(ctx) {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	following, stop := context.WithCancel(ctx)
	defer stop()
	var writing sync.WaitGroup
	writing.Add(writers)
	for i := range writers {
		w := &writer{episode: e, client: i + 1, random: rand.New(rand.NewPCG(e.random.Uint64(), uint64(i)))}
		g.Go(func() error {
			defer writing.Done()
			return w.work(ctx)
		})
	}
	random := rand.New(rand.NewPCG(e.random.Uint64(), 100))
	g.Go(func() error { return e.look(following, random) })
	for i, f := range e.followers {
		if f != nil {
			random := rand.New(rand.NewPCG(e.random.Uint64(), uint64(200+i)))
			g.Go(func() error { return f.follow(following, e.run, random) })
		}
	}
	g.Go(func() error {
		writing.Wait()
		stop()
		return nil
	})
	return g.Wait()
}

// over tells whether a stream's history is as long as can be checked.
func (e *episode) over() bool { return e.mortal && e.unknown.Load() >= mostUnknown }

// make creates the stream, through one node after the other.
func (e *episode) make(ctx context.Context) bool {
	for range mostAttempts {
		if out, err := e.call(ctx, 0, &input{kind: creating}, e.random); err != nil {
			e.run.cluster.fail(err)
			return false
		} else if out.verdict != unknown {
			return true
		}
		if !sleep(ctx, pause(e.random)) {
			return false
		}
	}
	return false
}

// call makes a call through a random node and records it.
func (e *episode) call(ctx context.Context, client int, in *input, random *rand.Rand) (*output, error) {
	d := e.run.door(random)
	// A call is never cut short: that would only make its outcome unknown.
	ctx = context.WithoutCancel(ctx)
	e.run.calls.Add(1)
	c := e.history.begin(client, in)
	var out *output
	var err error
	switch in.kind {
	case creating:
		out, err = d.create(ctx, e.history.name)
	case deleting:
		out, err = d.remove(ctx, e.history.name)
	case appending:
		out, err = d.append(ctx, e.history.name, in)
	default:
		var current bool
		if _, out, current, err = d.read(ctx, e.history.name); err == nil && !current {
			out = &output{} // perhaps of the past, which it said
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", e.history.name, in.kind, err)
	}
	c.end(out)
	if out.verdict == unknown {
		e.run.unknown.Add(1)
		e.unknown.Add(1)
	}
	if out.tailKnown {
		e.tail.Store(out.tail)
	}
	return out, nil
}

// look reads the whole stream now and then.
func (e *episode) look(ctx context.Context, random *rand.Rand) error {
	for sleep(ctx, 5*pause(random)) {
		if _, err := e.call(ctx, writers+1, &input{kind: reading}, random); err != nil {
			return err
		}
	}
	return nil
}

// pause is the time between two calls of a client.
func pause(random *rand.Rand) time.Duration {
	return time.Duration(5+random.IntN(40)) * time.Millisecond
}

// settle reads the stream through every node, which must agree, and brings the
// followers to its end. Every node is well now.
func (e *episode) settle(ctx context.Context) (end ending, err error) {
	for i, d := range e.run.doors() {
		c := e.history.begin(writers+2, &input{kind: reading})
		read, out, err := readWell(ctx, d, e.history.name)
		if err != nil {
			return end, fmt.Errorf("%s through node %d: %w", e.history.name, i+1, err)
		}
		c.end(out)
		e.run.calls.Add(1)
		end = ending{content: read, closed: out.closed}
	}
	for _, f := range e.followers {
		if f == nil {
			continue
		}
		if err := f.finish(ctx, e.run, uint64(len(end.content)), e.random); err != nil {
			return end, err
		}
	}
	return end, nil
}

// readWell reads through a node that is well, though its bucket may fail a few
// times in a row.
func readWell(ctx context.Context, d *door, name stream.Name) ([]uint64, *output, error) {
	for {
		content, out, current, err := d.read(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		if out.verdict != unknown && current {
			return content, out, nil
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return nil, nil, fmt.Errorf("no answer that is current: %w", context.Cause(ctx))
		}
	}
}

// check is everything that must hold of a stream that ended like this.
func (e *episode) check(end ending) (decided bool, err error) {
	if e.mortal {
		return e.history.linearizable(e.history.calls)
	}
	if err := e.history.verifyContent(end.content); err != nil {
		return true, err
	}
	for _, f := range e.followers {
		if err := f.verify(end.content); err != nil {
			return true, fmt.Errorf("%w\n%s", err, e.history.describe())
		}
	}
	return e.history.linearizable(e.history.resolve(end))
}
