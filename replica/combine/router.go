package combine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/picomq/picomq/commands"
)

// Remote asks another node's combiner. An error that is none of the log's own,
// and a lost answer, is [commands.ErrUnknown]; [commands.ErrNotSent] only when
// the request certainly did not reach it.
type Remote interface {
	Insert(ctx context.Context, by commands.Holder, in commands.Insert) (commands.Row, error)
}

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
	Patience = 500 * time.Millisecond
	// avoidance is how long a node that did not answer is not asked again: by then
	// it has renewed its lease, or another has it.
	avoidance = leaseTTL
)

// Router sends a proposer's inserts to the combiner that is in charge. Its methods
// are safe for concurrent use.
type Router struct {
	local  *Combiner
	remote Remote
	logger *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	charge  commands.Holder // who has the lease, as last learned; zero: unknown
	self    commands.Holder
	until   time.Time // when what was learned is too old
	avoided time.Time // until then nobody is asked
}

// NewRouter makes a router for a node that has a combiner of its own.
func NewRouter(local *Combiner, remote Remote, logger *slog.Logger) *Router {
	return &Router{local: local, remote: remote, logger: logger, now: time.Now}
}

// Insert asks whoever is in charge. [commands.ErrNotSent] says to insert by
// oneself.
func (r *Router) Insert(ctx context.Context, in commands.Insert) (commands.Row, error) {
	by, self := r.inCharge()
	switch by {
	case commands.Holder{}:
		return commands.Row{}, fmt.Errorf("%w: no node inserts for others", commands.ErrNotSent)
	case self:
		return r.local.Insert(ctx, in)
	}
	call, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	row, err := r.remote.Insert(call, by, in)
	if errors.Is(err, commands.ErrNotSent) || errors.Is(err, commands.ErrUnknown) {
		r.avoid(by, err)
	}
	return row, err
}

// inCharge is whom to ask, or nobody, and this node.
func (r *Router) inCharge() (by, self commands.Holder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if now.After(r.until) || now.Before(r.avoided) {
		return commands.Holder{}, r.self
	}
	return r.charge, r.self
}

// avoid lets everybody insert for itself for a while.
func (r *Router) avoid(by commands.Holder, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.avoided = r.now().Add(avoidance)
	r.logger.Info("the node that inserts for others does not answer: this one inserts for itself for a while", "peer", by.Node, "error", err)
}

// Learn notes who is in charge, for the time of a lease from when it was asked.
func (r *Router) Learn(self, charge commands.Holder, asked time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if charge != r.charge {
		r.avoided = time.Time{} // it is another
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
			r.logger.Debug("who inserts for others is not known", "error", err)
		}
		select {
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTTL)
			defer cancel()
			if err := leases.ReleaseLease(end, LeaseName, self()); err != nil {
				r.logger.Debug("the lease of inserting for others runs out by itself", "error", err)
			}
			return
		case <-tick.C:
		}
	}
}

func (r *Router) renew(ctx context.Context, leases Leases, self commands.Holder) error {
	asked := r.now()
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
