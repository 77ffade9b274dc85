package combine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/commands"
)

// Remote asks another node's combiner. An error that is none of the log's own,
// and a lost answer, is [commands.ErrUnknown]; [commands.ErrNotSent] only when
// the request certainly did not reach it. It may be [ErrGone] or [ErrRefused] too.
type Remote interface {
	Insert(ctx context.Context, by commands.Holder, in commands.Insert) (commands.Row, error)
}

var (
	// ErrGone is a node that left, so that another soon inserts for all.
	ErrGone = errors.New("the node left")
	// ErrRefused is a node that will not insert for this one until somebody changes
	// how one of them is configured.
	ErrRefused = errors.New("the node refuses to insert for this one")
)

// Leases says who has the lease. [Router.Keep] takes it.
type Leases interface {
	AcquireLease(ctx context.Context, name string, by commands.Holder, ttl time.Duration) (held bool, err error)
	ReleaseLease(ctx context.Context, name string, by commands.Holder) error
	LeaseHolder(ctx context.Context, name string) (by commands.Holder, held bool, err error)
}

const (
	// LeaseName is the name of the lease of whom to ask.
	LeaseName = "insert"
	// leaseTTL is how long nobody can take it from a holder that is gone, and
	// leaseEvery how often it is renewed, or looked at.
	leaseTTL, leaseEvery = 3 * time.Second, time.Second
	// Patience is how long another node's combiner may take. A proposer then asks
	// the log.
	Patience = 300 * time.Millisecond
	// avoidance is how long a node that did not answer is not asked again: by then
	// it has renewed its lease, or another has taken it and that was heard of. It
	// doubles, up to longestAvoidance, while the same node does not answer.
	avoidance        = leaseTTL + 2*leaseEvery
	longestAvoidance = time.Minute
)

// Router sends a proposer's inserts to the combiner that is in charge. Its methods
// are safe for concurrent use.
type Router struct {
	local  *Combiner
	remote Remote
	config RouterConfig

	byOthers, alone atomic.Uint64 // see RouterStats

	mu      sync.Mutex
	charge  commands.Holder // who has the lease, as last learned; zero: unknown
	self    commands.Holder
	until   time.Time     // when what was learned is too old
	avoided time.Time     // until then nobody is asked
	pause   time.Duration // how long it was avoided the last time; 0: it answered since
}

// RouterConfig is what a router may be told. Zero fields take the defaults named.
type RouterConfig struct {
	// Logger is told when a node does not answer. Default: nobody.
	Logger *slog.Logger
	// Observe is given how long an insert took that somebody in charge was asked
	// for, whatever came of it, on the goroutine that waited. May be nil.
	Observe func(time.Duration)
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// NewRouter makes a router for a node that has a combiner of its own.
func NewRouter(local *Combiner, remote Remote, config RouterConfig) *Router {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Observe == nil {
		config.Observe = func(time.Duration) {}
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Router{local: local, remote: remote, config: config}
}

// RouterStats is what came of a node's own inserts since its router was made.
type RouterStats struct {
	ByOthers uint64 // another node inserted them
	Alone    uint64 // nobody was in charge or answered: the node was told to insert by itself
}

// Stats is a snapshot.
func (r *Router) Stats() RouterStats {
	return RouterStats{ByOthers: r.byOthers.Load(), Alone: r.alone.Load()}
}

// Insert asks whoever is in charge. [commands.ErrNotSent] says to insert by
// oneself.
func (r *Router) Insert(ctx context.Context, in commands.Insert) (commands.Row, error) {
	row, err := r.ask(ctx, in)
	if errors.Is(err, commands.ErrNotSent) || errors.Is(err, commands.ErrUnknown) {
		r.alone.Add(1)
	}
	return row, err
}

func (r *Router) ask(ctx context.Context, in commands.Insert) (commands.Row, error) {
	by, self := r.inCharge()
	if by == (commands.Holder{}) {
		return commands.Row{}, fmt.Errorf("%w: no node inserts for others", commands.ErrNotSent)
	}
	begun := time.Now()
	defer func() { r.config.Observe(time.Since(begun)) }()
	if by == self {
		return r.local.Insert(ctx, in)
	}
	call, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	row, err := r.remote.Insert(call, by, in)
	switch {
	case err == nil:
		r.byOthers.Add(1)
		r.answered(by)
	case errors.Is(err, commands.ErrNotSent), errors.Is(err, commands.ErrUnknown):
		r.avoid(by, err)
	}
	return row, err
}

// inCharge is whom to ask, or nobody, and this node.
func (r *Router) inCharge() (by, self commands.Holder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.config.Now()
	if now.After(r.until) || now.Before(r.avoided) {
		return commands.Holder{}, r.self
	}
	return r.charge, r.self
}

// avoid lets everybody insert for itself for a while.
func (r *Router) avoid(by commands.Holder, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if by != r.charge {
		return // it is another by now
	}
	r.pause = min(max(2*r.pause, avoidance), longestAvoidance)
	r.avoided = r.config.Now().Add(r.pause)
	level, what := slog.LevelInfo, "the node that inserts for others does not answer: this one inserts for itself for a while"
	switch {
	case errors.Is(err, ErrGone):
		level, what = slog.LevelDebug, "the node that inserts for others left: this one inserts for itself until another does"
	case errors.Is(err, ErrRefused):
		level, what = slog.LevelWarn, "the node that inserts for others refuses to do so for this one, which inserts for itself"
	}
	r.config.Logger.Log(context.Background(), level, what, "peer", by.Node, "for", r.pause.String(), "error", err)
}

// answered notes that a node works.
func (r *Router) answered(by commands.Holder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if by == r.charge {
		r.pause = 0
	}
}

// Learn notes who is in charge, for the time of a lease from when it was asked.
func (r *Router) Learn(self, charge commands.Holder, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if charge != r.charge {
		r.avoided, r.pause = time.Time{}, 0 // it is another
	}
	r.self, r.charge, r.until = self, charge, asked.Add(leaseTTL)
}

// Keep takes the lease when it is free, keeps it, and learns who has it, until ctx
// ends; then it is given up. self tells who this node is by now.
func (r *Router) Keep(ctx context.Context, leases Leases, self func() commands.Holder) {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		if err := r.renew(ctx, leases, self()); err != nil && ctx.Err() == nil {
			r.config.Logger.Debug("who inserts for others is not known", "error", err)
		}
		select {
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTTL)
			defer cancel()
			if err := leases.ReleaseLease(end, LeaseName, self()); err != nil {
				r.config.Logger.Debug("the lease of inserting for others runs out by itself", "error", err)
			}
			return
		case <-tick.C:
		}
	}
}

func (r *Router) renew(ctx context.Context, leases Leases, self commands.Holder) error {
	asked := r.config.Now()
	held, err := leases.AcquireLease(ctx, LeaseName, self, leaseTTL)
	if err != nil {
		return err
	}
	if held {
		r.Learn(self, self, asked)
		return nil
	}
	holder, held, err := leases.LeaseHolder(ctx, LeaseName)
	if err == nil && held {
		r.Learn(self, holder, asked)
	}
	return err
}
