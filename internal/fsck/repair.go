package fsck

import (
	"context"
	"fmt"
	"time"

	"gocloud.dev/gcerrors"
	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/commands"
)

const (
	// maintenanceLease is the lease of upkeep: whoever has it deletes objects.
	maintenanceLease = "upkeep"
	leaseTTL         = 30 * time.Second
	// deletesAtOnce is how many orphans are deleted together.
	deletesAtOnce = 1000
)

// holder is who this is to the lease. No node has the number 0.
var holder = commands.Holder{Node: 0, Epoch: 1}

// repairs deletes orphans, a batch at a time, if it may; and tells them.
type repairs struct {
	*checker
	may   bool
	held  time.Time // until when the lease is ours
	batch []Finding
}

// newRepairs decides whether orphans are deleted.
func (c *checker) newRepairs(ctx context.Context) (*repairs, error) {
	r := &repairs{checker: c}
	if !c.Repair {
		return r, nil
	}
	if c.doubt {
		c.refuse("what was found before puts the history in doubt: nothing is deleted")
		return r, nil
	}
	var err error
	r.may, err = r.lease(ctx)
	return r, err
}

// refuse says once why nothing is repaired.
func (c *checker) refuse(why string) {
	c.Repair = false
	c.tell(Finding{Severity: Info, Kind: Refused, Object: theLog, What: why})
}

// lease takes or renews the right to do maintenance. Without others who could do
// it there is nothing to take.
func (r *repairs) lease(ctx context.Context) (bool, error) {
	if !r.shared || time.Now().Before(r.held) {
		return true, nil
	}
	asked := time.Now()
	held, err := r.Log.AcquireLease(ctx, maintenanceLease, holder, leaseTTL)
	if err != nil {
		return false, err
	}
	if !held {
		r.refuse("a server of the cluster does maintenance, and deletes orphans itself within an hour or two; stop the servers to do it now")
	}
	r.held = asked.Add(leaseTTL / 2)
	return held, nil
}

// orphan takes an object that nothing will ever refer to.
func (r *repairs) orphan(ctx context.Context, f Finding) error {
	f.Severity, f.Kind = Warning, Orphan
	f.Do = "servers delete it in time, and --repair does now"
	if r.batch = append(r.batch, f); len(r.batch) < deletesAtOnce {
		return nil
	}
	return r.flush(ctx)
}

// flush deletes what was taken, and tells it.
func (r *repairs) flush(ctx context.Context) (err error) {
	if r.may && len(r.batch) > 0 {
		if r.may, err = r.lease(ctx); err != nil {
			return err
		}
	}
	if r.may {
		r.delete(ctx)
	}
	for _, f := range r.batch {
		r.tell(f)
	}
	r.batch = r.batch[:0]
	return ctx.Err()
}

func (r *repairs) delete(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(r.Parallel)
	for i := range r.batch {
		f := &r.batch[i]
		group.Go(func() error {
			err := r.Bucket.Delete(ctx, f.Object)
			if f.Repaired = err == nil || gcerrors.Code(err) == gcerrors.NotFound; !f.Repaired {
				f.What += fmt.Sprintf("; it could not be deleted: %v", err)
			}
			return nil
		})
	}
	_ = group.Wait()
}

// finish deletes the rest and gives the lease back.
func (r *repairs) finish(ctx context.Context) error {
	err := r.flush(ctx)
	if !r.held.IsZero() && r.may {
		if released := r.Log.ReleaseLease(context.WithoutCancel(ctx), maintenanceLease, holder); err == nil {
			err = released
		}
	}
	return err
}
