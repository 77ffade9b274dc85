package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"gocloud.dev/blob"
	"golang.org/x/time/rate"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/seldom"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/stream"
)

// Leases hands out the right to do maintenance.
type Leases interface {
	// AcquireLease takes or renews a lease for ttl and reports whether holder has it.
	AcquireLease(ctx context.Context, name string, holder commands.Holder, ttl time.Duration) (bool, error)
	// ReleaseLease gives it back; releasing what is not held does nothing.
	ReleaseLease(ctx context.Context, name string, holder commands.Holder) error
}

// Segments stores what compaction writes. The engine implements it.
type Segments interface {
	// Identity is whose segments this node writes now.
	Identity() blobwal.Identity
	// Reserve is a sequence of this node for a packed segment.
	Reserve() uint64
	// Store puts a packed segment's object into the bucket, with retries.
	Store(ctx context.Context, id blobwal.SegmentID, object []byte) error
	// GiveUp says that no command will come for these sequences.
	GiveUp(ids ...blobwal.SegmentID)
}

// Config is what maintenance works with. Zero fields take the defaults named.
type Config struct {
	Replica  *replica.Replica // registered
	Leases   Leases
	Bucket   *blob.Bucket
	Cache    *blockcache.Cache
	Segments Segments
	Identity blobwal.Identity // of this node's first start: cluster and log are for ever
	Nodes    Nodes            // nil: nobody is taken for gone
	Logger   *slog.Logger
	// Retention is what streams keep that state no bound of their own. Zero: all.
	Retention stream.Retention
	// Grace is how long a doomed segment's object stays for readers that are about
	// to ask for it, in active time. It must exceed twice the time that reads may be
	// stale. Default 90 s.
	Grace time.Duration
	// Bandwidth bounds what compaction reads and writes, in bytes a second.
	// Default 32 MiB.
	Bandwidth int64
	// PackedBytes is the size of a packed segment, and about half the memory that
	// compaction takes. Default 32 MiB.
	PackedBytes int
	// SweepAfter is how long after the start, and SweepEvery how long after the last
	// time, the bucket is listed for what the log does not know. Defaults 10 min and
	// 1 h.
	SweepAfter time.Duration
	SweepEvery time.Duration
	// NodeTimeout is how long a node may be silent before it is taken for gone. Nodes
	// must beat several times as often. Default 30 s.
	NodeTimeout time.Duration
	// Look is how often each job is looked at. Default [LookEvery].
	Look time.Duration
}

func (c *Config) validate() error {
	if c.Replica == nil || c.Leases == nil || c.Bucket == nil || c.Cache == nil || c.Segments == nil {
		return errors.New("upkeep: Replica, Leases, Bucket, Cache and Segments are required")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Grace <= 0 {
		c.Grace = 90 * time.Second
	}
	if c.Bandwidth <= 0 {
		c.Bandwidth = 32 << 20
	}
	if c.PackedBytes <= 0 {
		c.PackedBytes = 32 << 20
	}
	if c.NodeTimeout <= 0 {
		c.NodeTimeout = 30 * time.Second
	}
	if c.Look <= 0 {
		c.Look = LookEvery
	}
	if c.SweepAfter <= 0 {
		c.SweepAfter = 10 * time.Minute
	}
	if c.SweepEvery <= 0 {
		c.SweepEvery = time.Hour
	}
	return nil
}

// Timing. A tick every TickEvery keeps active time moving: less than the 30 s
// that one entry may add.
const (
	TickEvery = 10 * time.Second
	// LookEvery is how often each job is looked at, unless configured.
	LookEvery = time.Second
	leaseName = "upkeep"
	leaseTTL  = 15 * time.Second
)

// Upkeep runs the maintenance of one node.
type Upkeep struct {
	cfg     Config
	pace    *rate.Limiter
	jobs    []*runner
	sweep   *orphans
	compact *compact
	lapse   *seldom.Outage // of the lease's table, which fails all jobs alike

	mu    sync.Mutex
	held  time.Time // until when the lease surely is ours
	asked time.Time // when it was another's; zero once it is ours
}

// New prepares the maintenance that the replica's node does.
func New(cfg Config) (*Upkeep, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	u := &Upkeep{cfg: cfg}
	u.lapse = seldom.NewOutage(cfg.Logger, nil, "maintenance waits: its lease could not be asked for; trying again", "maintenance can ask for its lease again")
	u.pace = rate.NewLimiter(rate.Limit(cfg.Bandwidth), int(min(cfg.Bandwidth, 1<<30)))
	u.jobs = u.makeJobs()
	for _, r := range u.jobs {
		r.outage = seldom.NewOutage(cfg.Logger, nil, "maintenance failed; it is tried again", "maintenance works again")
	}
	return u, nil
}

// Run works until ctx ends, then gives the lease back.
func (u *Upkeep) Run(ctx context.Context) {
	var jobs sync.WaitGroup
	for _, r := range u.jobs {
		jobs.Go(func() { u.run(ctx, r) })
	}
	jobs.Wait()
	u.release(context.WithoutCancel(ctx))
}

// run looks at one job until ctx ends.
func (u *Upkeep) run(ctx context.Context, r *runner) {
	look := time.NewTicker(u.cfg.Look)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			for more := true; more && ctx.Err() == nil; {
				more = u.try(ctx, r, time.Now())
			}
		}
	}
}

// Step looks once at every job, in turn. It is exported for tests, which move
// time themselves; it must not run while [Upkeep.Run] does.
func (u *Upkeep) Step(ctx context.Context, now time.Time) error {
	var errs []error
	for _, r := range u.jobs {
		for more := true; more; {
			more = u.try(ctx, r, now)
		}
		if s := r.look(); s.Error != "" {
			errs = append(errs, errors.New(r.name+": "+s.Error))
		}
	}
	return errors.Join(errs...)
}

// try does a step of a job that is due and has something to do, if the lease is
// ours.
func (u *Upkeep) try(ctx context.Context, r *runner, now time.Time) (more bool) {
	if !r.due(now) {
		return false
	}
	held, err := u.lease(ctx, now)
	if err == nil && !held {
		return false
	}
	outage := u.lapse
	if err == nil {
		outage.Worked()
		outage = r.outage
		more, err = r.try(ctx, now)
	}
	if ctx.Err() != nil {
		return false // the end of the process is no failure of the job's
	}
	r.finished(now, more, err)
	if err != nil {
		outage.Failed("job", r.name, "error", err)
	} else {
		outage.Worked("job", r.name)
	}
	return more && err == nil
}

// wait gives way until so many bytes may be read or written.
func (u *Upkeep) wait(ctx context.Context, bytes int64) error {
	for bytes > 0 {
		n := min(bytes, int64(u.pace.Burst()))
		if err := u.pace.WaitN(ctx, int(n)); err != nil {
			return err
		}
		bytes -= n
	}
	return nil
}

// Status is how the jobs are doing, in a fixed order.
func (u *Upkeep) Status() []Status {
	list := make([]Status, len(u.jobs))
	for i, r := range u.jobs {
		list[i] = r.look()
	}
	return list
}

// Leads tells whether this node holds the lease, as far as it knows.
func (u *Upkeep) Leads() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Now().Before(u.held)
}

// lease renews the lease when a third of it is gone. All jobs share it, and the
// answer that it is another's, for a while.
func (u *Upkeep) lease(ctx context.Context, now time.Time) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case now.Before(u.held.Add(-leaseTTL * 2 / 3)):
		return true, nil
	case now.Before(u.asked.Add(leaseTTL / 3)):
		return false, nil
	}
	held, err := u.cfg.Leases.AcquireLease(ctx, leaseName, u.holder(), leaseTTL)
	switch {
	case err != nil:
		u.held = time.Time{}
	case held:
		u.held, u.asked = now.Add(leaseTTL), time.Time{}
	default:
		u.held, u.asked = time.Time{}, now
	}
	return held && err == nil, err
}

// holder is who this node is now.
func (u *Upkeep) holder() commands.Holder {
	node, epoch := u.cfg.Replica.Node()
	return commands.Holder{Node: node, Epoch: epoch}
}

func (u *Upkeep) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := u.cfg.Leases.ReleaseLease(ctx, leaseName, u.holder()); err != nil {
		u.cfg.Logger.Warn("the upkeep lease was not given back; it runs out by itself", "error", err)
	}
}
