package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// Config is what an engine is made of. Zero fields take the defaults named.
type Config struct {
	Replica *replica.Replica // registered
	Hub     *Hub             // that the replica publishes to
	Cache   *blockcache.Cache
	// Writer configures the segment writer; the engine sets its callback.
	Writer blobwal.WriterConfig
	Logger *slog.Logger
	Now    func() time.Time // default time.Now
	// InFlightBytes bounds the appends that are not decided yet. Default 64 MiB.
	InFlightBytes int64
	// MaxExtents bounds the extents of all streams, at 24 bytes each and more
	// where they are many. Default 32 Mi.
	MaxExtents uint64
	// AppendTimeout is how long an append waits for its outcome. It should exceed
	// the writer's Deadline and the replica's QueueTimeout together, after which
	// most failures are known not to have written anything. Default 45 s.
	AppendTimeout time.Duration
	// SyncTimeout is how long a read waits for the log's head. Default 2 s.
	SyncTimeout time.Duration
	// StaleLimit is how long reads are answered while the log is out of reach. What
	// a deleted segment's grace rests on: see upkeep. Default [DefaultStaleLimit].
	StaleLimit time.Duration
	// LocalReads answers reads from the view without asking the log.
	LocalReads bool
	// AfterPut and AfterCommit, when set, run between the durable put and the
	// proposal of its commit, and between the applied commit and the answers.
	// They exist to place a crash there.
	AfterPut    func()
	AfterCommit func()
}

// DefaultStaleLimit is how long reads are answered without the log.
const DefaultStaleLimit = 30 * time.Second

func (c *Config) validate() error {
	if c.Replica == nil || c.Hub == nil || c.Cache == nil {
		return errors.New("engine: Replica, Hub and Cache are required")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.InFlightBytes <= 0 {
		c.InFlightBytes = 64 << 20
	}
	if c.MaxExtents == 0 {
		c.MaxExtents = 32 << 20
	}
	orDefault(&c.AppendTimeout, 45*time.Second)
	orDefault(&c.SyncTimeout, 2*time.Second)
	orDefault(&c.StaleLimit, DefaultStaleLimit)
	nothing := func() {}
	if c.AfterPut == nil {
		c.AfterPut = nothing
	}
	if c.AfterCommit == nil {
		c.AfterCommit = nothing
	}
	return nil
}

func orDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// Engine serves streams. Its methods are safe for concurrent use; every error
// that is a refusal is a [*stream.Error].
type Engine struct {
	cfg     Config
	replica *replica.Replica
	hub     *Hub
	cache   *blockcache.Cache
	writers writers
	watch   sync.WaitGroup
	closed  chan struct{}
	toucher *toucher
	readers readers
	sweeps  sweeps
	timers  sync.Pool // of stopped ones, see newTimer

	inFlight atomic.Int64          // bytes of appends not decided yet
	storage  atomic.Pointer[error] // how the last upload ended
	ahead    atomic.Int64          // how far the clock here runs before log time, in ms, as last seen
}

// New makes an engine and starts its writer.
func New(cfg Config) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, replica: cfg.Replica, hub: cfg.Hub, cache: cfg.Cache, timers: sync.Pool{New: newTimer}}
	cfg.Writer.Sealed = e.sealed
	writer, err := blobwal.NewWriter(cfg.Writer)
	if err != nil {
		return nil, err
	}
	e.writers.begin(writer, cfg.Writer)
	e.closed = make(chan struct{})
	e.watch.Go(e.watchReplica)
	e.toucher = newToucher(e.replica, cfg.Logger)
	e.hub.tend = e.tend
	return e, nil
}

// Close lets the appends that were taken be stored and decided, and the touches
// that were held back be written, within ctx, and stops. New requests must be
// refused by the caller from here on, and the replica be closed after it.
func (e *Engine) Close(ctx context.Context) error {
	close(e.closed)
	e.watch.Wait()
	return errors.Join(e.closeWriters(ctx), e.decided(ctx), e.toucher.close(ctx))
}

// decided waits until no append is under way any more.
func (e *Engine) decided(ctx context.Context) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for e.inFlight.Load() > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("close the engine before the log decided everything: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Storage is why the last segment could not be stored, or nil. It stays until
// one is stored again, or somebody finds out that the bucket takes objects and
// says so with [Engine.Stored].
func (e *Engine) Storage() error {
	if err := e.storage.Load(); err != nil {
		return *err
	}
	return nil
}

// Stored ends what Storage says.
func (e *Engine) Stored() { e.storage.Store(nil) }

// stored notes how an upload ended. A segment of somebody else under this
// node's own key means that another process writes as this one: that is the end.
func (e *Engine) stored(err error) {
	e.storage.Store(&err)
	if err != nil && stream.CodeOf(err) == stream.CodeInternal {
		e.replica.End(fmt.Errorf("another process writes segments as this node: %w", err))
	}
}

// InFlight is the bytes of appends that are not decided yet.
func (e *Engine) InFlight() int64 { return e.inFlight.Load() }

// Waiting is the number of parked followers.
func (e *Engine) Waiting() int { return e.hub.size() }

// clock estimates the two times that the next entry would carry. Log time is the
// earlier of two clocks, so it may lag behind the one here.
func (e *Engine) clock() (active int64, now stream.Time) {
	view := e.replica.View()
	active = view.ActiveTime() // first: an entry in between then counts once
	logTime := view.LogTime()
	now = max(logTime, stream.Time(e.cfg.Now().UnixMilli()-e.ahead.Load()))
	return active + min(int64(now-logTime), statemachine.MaxActiveStep), now
}

// learn compares the clock here, as it was before a proposal, with the log time
// that the entry got.
func (e *Engine) learn(before time.Time, at stream.Time) {
	e.ahead.Store(max(before.UnixMilli()-int64(at), 0))
}
