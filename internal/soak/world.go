package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/blobwal/filebucket"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// Config says what to run.
type Config struct {
	Folder  string // empty or new: log and bucket
	Seed    uint64
	Lasts   time.Duration // that workers work; the checks come after it
	Nodes   int           // 1: a SQLite log; more: one in memory that they share
	Workers int
	Log     func(format string, args ...any) // told how it goes
}

// world is what outlives nodes.
type world struct {
	Config
	bounds
	memory   *sqllogtest.Memory // nil: a SQLite file
	shared   *blob.Bucket       // of all lives; nil: a folder
	clock    *atomic.Int64      // moved by hand, in ms; nil: the system's
	seats    []*seat
	calm     atomic.Bool // no faults any more
	cluster  atomic.Pointer[commands.ClusterID]
	lifetime time.Duration // about how long a node lives
	began    time.Time
	skipped  atomic.Int64 // how far the jobs' clock was moved by hand, in ns
	tally    tally
	curve    curve
	last     *life // whose state was compared with the bucket
}

// tiny are the bounds in a soak. Of the last uploads only some are still in
// memory, so that others are read.
var tiny = bounds{
	packedBytes: 32 << 10, tailBytes: 256 << 10, blockBytes: 1 << 20, segmentBytes: 32 << 10, grace: time.Second, keepRows: 200,
	snapshotBytes: 128 << 10, snapshotAge: time.Second, deadline: 500 * time.Millisecond, sweepAfter: 2 * time.Second, sweepEvery: 20 * time.Second,
}

// haste is by what the jobs' own clock runs faster than log time.
const haste = 10

// Run soaks. The error is the first thing that was not as it must be.
func Run(ctx context.Context, c Config) (*Report, error) {
	w := newWorld(c)
	err := w.run(ctx)
	return w.report(), err
}

func newWorld(c Config) *world {
	w := &world{Config: c, bounds: tiny, lifetime: min(5*time.Second, max(c.Lasts/4, 300*time.Millisecond)), began: time.Now()}
	if c.Nodes > 1 {
		w.memory = sqllogtest.NewMemory()
	}
	return w
}

func (w *world) run(ctx context.Context) error {
	random := newRandom(w.Seed)
	for range w.Nodes {
		w.seats = append(w.seats, newSeat(w, random.Uint64()))
	}
	workers := make([]*worker, w.Workers)
	for i := range workers {
		workers[i] = newWorker(w, i, random.Uint64())
	}
	if err := w.work(ctx, workers); err != nil {
		return err
	}
	return w.settle(ctx, workers)
}

// errOver is the end of the time that a soak lasts.
var errOver = errors.New("the soak is over")

// work lets nodes live and workers work until the time is over, and then the
// workers finish what they do and read everything.
func (w *world) work(ctx context.Context, workers []*worker) error {
	all, ctx := errgroup.WithContext(ctx)
	nodes, end := context.WithCancel(ctx)
	for _, s := range w.seats {
		all.Go(func() error { return s.run(nodes) })
	}
	all.Go(func() error { return w.watch(nodes) })
	all.Go(func() error {
		defer end()
		over, cancel := context.WithTimeoutCause(ctx, w.Lasts, errOver)
		defer cancel()
		var busy errgroup.Group
		for _, x := range workers {
			busy.Go(func() error { return x.run(ctx, over.Done()) })
		}
		return busy.Wait()
	})
	return all.Wait()
}

// openLog opens the log as one node does.
func (w *world) openLog(ctx context.Context) (backing, error) {
	if w.memory != nil {
		return w.memory.Peer(), nil
	}
	return sqllog.Open(ctx, "sqlite://"+filepath.ToSlash(filepath.Join(w.Folder, "log.db")), sqllog.Options{})
}

// openBucket opens the bucket without faults. free closes it.
func (w *world) openBucket() (bucket *blob.Bucket, free func() error, err error) {
	if w.shared != nil {
		return w.shared, func() error { return nil }, nil
	}
	bucket, err = filebucket.Open(filepath.Join(w.Folder, "bucket"), nil)
	if err != nil {
		return nil, nil, err
	}
	return bucket, bucket.Close, nil
}

func (w *world) now() time.Time {
	if w.clock != nil {
		return time.UnixMilli(w.clock.Load())
	}
	return time.Now()
}

// hurried is the time of the jobs that run in turn.
func (w *world) hurried() time.Time {
	if w.clock != nil {
		return w.now()
	}
	return w.began.Add(haste*time.Since(w.began) + time.Duration(w.skipped.Load()))
}

// any is a node for the next request.
func (w *world) any(random *rand.Rand) *seat { return w.seats[random.IntN(len(w.seats))] }

// failf is a violation, with what is needed to see it again.
func (w *world) failf(format string, args ...any) error {
	return fmt.Errorf("seed %d, %d nodes: %w", w.Seed, w.Nodes, fmt.Errorf(format, args...))
}
