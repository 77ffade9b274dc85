package upkeep

import (
	"context"
	"log/slog"
	"time"

	"github.com/picomq/picomq/commands"
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

// Timing. A tick every TickEvery keeps active time moving: less than the 30 s
// that one entry may add.
const (
	TickEvery  = 10 * time.Second
	SweepEvery = time.Second
	leaseName  = "upkeep"
	leaseTTL   = 15 * time.Second
	sweepRows  = 1 << 16
)

// Upkeep runs the maintenance of one node.
type Upkeep struct {
	replica *replica.Replica
	leases  Leases
	holder  commands.Holder
	logger  *slog.Logger
	cursor  stream.ID
	held    time.Time // until when the lease surely is ours
	ticked  time.Time
}

// New prepares the maintenance that r's node does.
func New(r *replica.Replica, leases Leases, logger *slog.Logger) *Upkeep {
	node, epoch := r.Node()
	return &Upkeep{replica: r, leases: leases, holder: commands.Holder{Node: node, Epoch: epoch}, logger: logger}
}

// Run works until ctx ends, then gives the lease back.
func (u *Upkeep) Run(ctx context.Context) {
	timer := time.NewTicker(SweepEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			u.release(context.WithoutCancel(ctx))
			return
		case now := <-timer.C:
			if err := u.Step(ctx, now); err != nil && ctx.Err() == nil {
				u.logger.Warn("upkeep did not finish a pass; the next one tries again", "error", err)
			}
		}
	}
}

// Step does one pass at a time: nothing while no stream can expire or another
// node holds the lease. It is exported for tests, which step time themselves;
// it must not run twice at once.
func (u *Upkeep) Step(ctx context.Context, now time.Time) error {
	view := u.replica.View()
	if !view.HasExpiring() {
		return nil
	}
	if held, err := u.lease(ctx, now); err != nil || !held {
		return err
	}
	if now.Sub(u.ticked) >= TickEvery {
		if _, err := u.replica.Propose(ctx, &commands.Tick{}); err != nil {
			return err
		}
		u.ticked = now
	}
	return u.sweep(ctx)
}

// sweep expires streams that are due by the log's time.
func (u *Upkeep) sweep(ctx context.Context) error {
	ids, next := u.replica.View().Due(u.cursor, sweepRows)
	u.cursor = next
	for len(ids) > 0 {
		n := min(len(ids), commands.MaxIDs)
		if _, err := u.replica.Propose(ctx, &commands.Expire{IDs: ids[:n:n]}); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// lease renews the lease when a third of it is gone.
func (u *Upkeep) lease(ctx context.Context, now time.Time) (bool, error) {
	if now.Before(u.held.Add(-leaseTTL * 2 / 3)) {
		return true, nil
	}
	held, err := u.leases.AcquireLease(ctx, leaseName, u.holder, leaseTTL)
	if err != nil || !held {
		u.held = time.Time{}
		return false, err
	}
	u.held = now.Add(leaseTTL)
	return true, nil
}

func (u *Upkeep) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := u.leases.ReleaseLease(ctx, leaseName, u.holder); err != nil {
		u.logger.Warn("the upkeep lease was not given back; it runs out by itself", "error", err)
	}
}
