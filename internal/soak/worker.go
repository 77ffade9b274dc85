package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/picomq/picomq/stream"
)

// Bounds of a worker.
const (
	mostStreams = 24  // of one worker
	mostRecords = 600 // that a model keeps; the stream is trimmed or deleted then
)

// worker does things to streams of its own and knows what they must hold.
type worker struct {
	*world
	number  int
	random  *rand.Rand
	streams []*model
	free    []stream.Name // of streams that are gone for good
	made    int
}

func newWorker(w *world, number int, seed uint64) *worker {
	return &worker{world: w, number: number, random: newRandom(seed)}
}

// run works until it is over, then reads everything once.
func (x *worker) run(ctx context.Context, over <-chan struct{}) error {
	for {
		select {
		case <-over:
			return x.readAll(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		if err := x.step(ctx); err != nil {
			return err
		}
	}
}

// step does one thing to one stream.
func (x *worker) step(ctx context.Context) error {
	if len(x.streams) == 0 || len(x.streams) < mostStreams && x.random.IntN(15) == 0 {
		return x.create(ctx)
	}
	m := x.streams[x.random.IntN(len(x.streams))]
	if len(m.kept) > mostRecords && x.random.IntN(3) > 0 {
		return x.trim(ctx, m)
	}
	switch n := x.random.IntN(100); {
	case n < 60:
		return x.append(ctx, m)
	case n < 82:
		return x.read(ctx, m)
	case n < 86:
		return x.fork(ctx, m)
	case n < 91:
		return x.trim(ctx, m)
	case n < 93:
		return x.close(ctx, m)
	case n < 96:
		return x.remove(ctx, m)
	default:
		return x.follow(ctx, m)
	}
}

// name is a new one, or that of a stream that is gone.
func (x *worker) name() stream.Name {
	if len(x.free) > 0 && x.random.IntN(2) == 0 {
		name := x.free[0]
		x.free = x.free[1:]
		return name
	}
	x.made++
	return stream.Name(fmt.Sprintf("worker%d/stream%d", x.number, x.made))
}

// gone forgets a stream. Its name is free unless forks keep it.
func (x *worker) gone(m *model) {
	for i := range x.streams {
		if x.streams[i] == m {
			x.streams = append(x.streams[:i], x.streams[i+1:]...)
			break
		}
	}
	if !m.forked {
		x.free = append(x.free, m.name)
	}
}

// Bounds of a request.
const (
	requestTakes = 15 * time.Second // at most, one try
	answerTakes  = 10 * time.Minute // at most, until its outcome is known
)

// attempt is one try of a request and what was before it.
type attempt struct {
	*life
	again   bool // it is not the first
	unknown bool // one before may have happened
}

// insist tries a request, on any node, until its outcome is known: nil, or a
// refusal that is certain.
func (x *worker) insist(ctx context.Context, do func(ctx context.Context, a attempt) error) error {
	var a attempt
	for begun := time.Now(); ; {
		err := x.try(ctx, &a, do)
		var refused *stream.Error
		switch {
		case err == nil:
			x.tally.requests.Add(1)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Since(begun) > answerTakes:
			return x.failf("no answer for %v: %w", answerTakes, err)
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
			a.unknown = true
			x.tally.unknown.Add(1)
		case !errors.As(err, &refused):
			return err
		}
		if refused != nil {
			switch refused.Code {
			case stream.CodeOutcomeUnknown:
				a.unknown = true
				x.tally.unknown.Add(1)
			case stream.CodeUnavailable, stream.CodeOverloaded:
			default:
				x.tally.requests.Add(1)
				return err
			}
		}
		a.again = true
		x.tally.repeated.Add(1)
		time.Sleep(time.Duration(x.random.Int64N(int64(10 * time.Millisecond))))
	}
}

// try is one try.
func (x *worker) try(ctx context.Context, a *attempt, do func(ctx context.Context, a attempt) error) error {
	l, err := x.any(x.random).enter(ctx)
	if err != nil {
		return err
	}
	defer l.leave()
	a.life = l
	ctx, cancel := context.WithTimeout(ctx, requestTakes)
	defer cancel()
	return do(ctx, *a)
}

// refused judges a refusal that may mean that a stream has expired. Any other is
// a violation.
func (x *worker) refused(m *model, what string, err error) error {
	code := stream.CodeOf(err)
	if (code == stream.CodeNotFound || code == stream.CodeDeleted && m.forked) && m.mayBeGone() {
		x.tally.expired.Add(1)
		x.gone(m)
		return nil
	}
	return x.broken(m, "%s: %w", what, err)
}

// broken is a violation about a stream.
func (x *worker) broken(m *model, format string, args ...any) error {
	text := ""
	for _, s := range m.lately {
		text += "\n  " + s
	}
	return x.failf("%s (%d) [%d,%d) %+v, used %v ago: %w\nlately:%s", m.name, m.id, m.start, m.tail(), m.config, time.Since(m.used),
		fmt.Errorf(format, args...), text)
}

// started takes a start that an answer showed.
func (x *worker) started(m *model, start stream.Offset) error {
	if start == m.start {
		return nil
	}
	if !m.mayStart(start) {
		return x.broken(m, "it starts at %d", start)
	}
	m.note("retention moved the start to %d", start)
	x.tally.trimmed.Add(1)
	m.moveStart(start)
	return nil
}

// shown checks what an answer shows of a stream, other than its tail.
func (x *worker) shown(m *model, i *stream.Info) error {
	switch {
	case i.ID != m.id || i.Name != m.name:
		return x.broken(m, "the answer is about %s (%d)", i.Name, i.ID)
	case i.Config != m.config:
		return x.broken(m, "it is configured as %+v", i.Config)
	case i.Closed != m.closed:
		return x.broken(m, "closed is %v", i.Closed)
	case i.Tail != m.tail():
		return x.broken(m, "its tail is %d", i.Tail)
	}
	return x.started(m, i.Start)
}
