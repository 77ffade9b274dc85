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
)

// holder is who this is to the lease. No node has the number 0.
var holder = commands.Holder{Node: 0, Epoch: 1}

// repairs tells orphans, and deletes them if it may, a batch at a time.
type repairs struct {
	*checker
	held  time.Time // until when the lease is ours
	batch []Finding
}

// may decides whether orphans are deleted.
func (r *repairs) may(ctx context.Context) (bool, error) {
	switch {
	case !r.Repair:
		return false, nil
	case r.doubt:
		r.refuse("what was found before puts the history in doubt: nothing is deleted")
		return false, nil
	case !r.shared || time.Now().Before(r.held):
		return true, nil // nobody else could do maintenance, or nobody does
	}
	asked := time.Now()
	held, err := r.Log.AcquireLease(ctx, maintenanceLease, holder, leaseTTL)
	if err != nil {
		return false, err
	}
	if !held {
		r.refuse("a server of the cluster does maintenance, and deletes orphans itself within an hour or two; stop the servers to do it now")
		return false, nil
	}
	r.held = asked.Add(leaseTTL / 2)
	return true, nil
}

// refuse says, once, why nothing is repaired.
func (c *checker) refuse(why string) {
	c.Repair = false
	c.tell(Finding{Severity: Info, Kind: Refused, Object: theLog, What: why})
}

// orphan takes an object that nothing will ever refer to.
func (r *repairs) orphan(ctx context.Context, f Finding) error {
	f.Severity, f.Kind = Warning, Orphan
	f.Do = "servers delete it in time, and --repair does now"
	if r.batch = append(r.batch, f); len(r.batch) < atOnce.deletes {
		return nil
	}
	return r.flush(ctx)
}

// flush deletes what was taken, and tells it.
func (r *repairs) flush(ctx context.Context) error {
	if len(r.batch) == 0 {
		return nil
	}
	may, err := r.may(ctx)
	if err != nil {
		return err
	}
	if may {
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
	if !r.held.IsZero() {
		if released := r.Log.ReleaseLease(context.WithoutCancel(ctx), maintenanceLease, holder); err == nil {
			err = released
		}
	}
	return err
}
