package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/stream"
)

// Config says what to run.
type Config struct {
	// Binary is picomq, built with the tag failpoint.
	Binary string
	// Folder gets the bucket and what the nodes keep.
	Folder string
	// Seed decides faults and calls.
	Seed uint64
	// Lasts is how long things go wrong, without the checks.
	Lasts time.Duration
	// Log is told what happens. Required.
	Log func(format string, args ...any)
}

const (
	// roundLimit bounds a round and so what has to be remembered until it is
	// checked.
	roundLimit = 2 * time.Minute
	// atOnce is how many streams are written at a time.
	atOnce = 12
	// settleLimit turns nodes that do not become well, or are not read, into an
	// error.
	settleLimit = 15 * time.Minute
)

// run is what is known while it lasts.
type run struct {
	Config
	cluster *cluster
	began   time.Time

	ids                    atomic.Uint64 // of records
	calls, unknown, visits atomic.Int64
	report                 Report
}

// Run starts a cluster, breaks it for a while, and checks what it promised. The
// report is of what was done until then also when there is an error.
func Run(ctx context.Context, c Config) (report *Report, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Config: c, began: time.Now()}
	r.cluster, err = newCluster(ctx, c.Binary, c.Folder, rand.New(rand.NewPCG(c.Seed, 0)), func(err error) { cancel(err) }, r.tell)
	if err != nil {
		return &r.report, err
	}
	defer func() { err = errors.Join(err, r.cluster.close()) }()
	random := rand.New(rand.NewPCG(c.Seed, 1))
	for left := c.Lasts; left > 0; left -= roundLimit {
		if err := r.round(ctx, min(left, roundLimit), random); err != nil {
			return r.finish(), because(ctx, err)
		}
	}
	return r.finish(), because(ctx, r.end(ctx))
}

// tell logs what happens, and when.
func (r *run) tell(format string, args ...any) {
	r.Log("%8.3f s  "+format, append([]any{time.Since(r.began).Seconds()}, args...)...)
}

// because puts what ended a run before what came of its end.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return errors.Join(cause, err)
	}
	return err
}

func (r *run) door(random *rand.Rand) *door { return r.cluster.seats[random.IntN(nodes)].door }

func (r *run) doors() (list [nodes]*door) {
	for i, s := range r.cluster.seats {
		list[i] = s.door
	}
	return list
}

// round breaks the cluster under load, lets it recover, and checks every stream
// of it.
func (r *run) round(ctx context.Context, lasts time.Duration, random *rand.Rand) error {
	r.report.Rounds++
	fate := newMisfortune(r.cluster, rand.New(rand.NewPCG(random.Uint64(), 1)))
	source := rand.New(rand.NewPCG(random.Uint64(), 2))
	breaking, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	var under sync.WaitGroup
	under.Go(func() { fate.reign(breaking) })
	under.Go(func() { probe(breaking, r.cluster, stream.Name(fmt.Sprintf("probe/%d", r.report.Rounds))) })
	episodes, err := r.load(breaking, source)
	stop()
	under.Wait()
	r.report.add(fate)
	if err := errors.Join(err, context.Cause(ctx)); err != nil {
		return err
	}
	r.tell("round %d: %d streams, %d calls; checking", r.report.Rounds, len(episodes), r.calls.Load())
	return r.check(ctx, episodes)
}

// load works on streams, some at a time, until ctx ends.
func (r *run) load(ctx context.Context, source *rand.Rand) ([]*episode, error) {
	var mu sync.Mutex
	var episodes []*episode
	g, ctx := errgroup.WithContext(ctx)
	for i := range atOnce {
		random := rand.New(rand.NewPCG(source.Uint64(), 0))
		g.Go(func() error {
			for j := 0; ctx.Err() == nil; j++ {
				e := newEpisode(r, stream.Name(fmt.Sprintf("chaos/%d-%d-%d", r.report.Rounds, i, j)), random)
				mu.Lock()
				episodes = append(episodes, e)
				mu.Unlock()
				if err := e.live(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return episodes, g.Wait()
}

// check reads every stream and holds it against its history.
func (r *run) check(ctx context.Context, episodes []*episode) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := r.well(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(2, runtime.NumCPU()))
	var undecided, records atomic.Int64
	for _, e := range episodes {
		g.Go(func() error {
			end, err := e.settle(ctx)
			if err != nil {
				return err
			}
			records.Add(int64(len(end.content)))
			decided, err := e.check(end)
			if !decided {
				undecided.Add(1)
				r.Log("whether an order explains these calls took too long to find out:\n%s", e.history.describe())
			}
			return err
		})
	}
	err := g.Wait()
	r.report.Streams += len(episodes)
	r.report.Records += records.Load()
	r.report.Undecided += int(undecided.Load())
	return err
}

// well waits until every node says that it is ready.
func (r *run) well(ctx context.Context) error {
	for _, s := range r.cluster.seats {
		if err := s.well(ctx); err != nil {
			return err
		}
	}
	return nil
}

// end compares the nodes with each other, ends them, and checks what they leave.
func (r *run) end(ctx context.Context) error {
	if err := r.cluster.agree(ctx); err != nil {
		return err
	}
	if err := r.cluster.terminate(); err != nil {
		return err
	}
	var err error
	r.report.Orphans, err = r.cluster.fsck(ctx)
	return err
}

func (r *run) finish() *Report {
	r.report.Calls, r.report.Unknown, r.report.Visits = r.calls.Load(), r.unknown.Load(), r.visits.Load()
	r.report.stillness = r.cluster.stillness
	return &r.report
}
