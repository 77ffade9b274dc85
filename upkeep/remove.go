package upkeep

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// Bounds on deletes: how many run at a time, how many begin in a second, how long
// one may take, and how long all of a step.
const (
	deletesAtOnce  = 8
	deletesASecond = 1000
	deleteTimeout  = 10 * time.Second
	removeTimeout  = 30 * time.Second
)

// mayDelete is nil when the log still has all that this node and the others
// applied: what it says that nothing needs, nothing needs.
func (u *Upkeep) mayDelete(ctx context.Context) error {
	if err := u.cfg.Replica.Sync(ctx); err != nil {
		return err
	}
	return u.cfg.Replica.CompareMarks(ctx)
}

// remover deletes objects.
type remover struct {
	bucket *blob.Bucket
	pace   *rate.Limiter
}

func newRemover(bucket *blob.Bucket) *remover {
	return &remover{bucket: bucket, pace: rate.NewLimiter(deletesASecond, deletesAtOnce)}
}

// remove deletes objects and says which of them are gone. It tries all, whatever
// becomes of one, unless the time is over; the error is the first.
func (r *remover) remove(ctx context.Context, keys []string) (gone []bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	gone = make([]bool, len(keys))
	var group errgroup.Group
	group.SetLimit(deletesAtOnce)
	var mu sync.Mutex
	var first error
	failed := 0
	for i, key := range keys {
		if r.pace.Wait(ctx) != nil {
			break // ctx is over; those that began are waited for
		}
		group.Go(func() error {
			err := r.removeOne(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if gone[i] = err == nil; err != nil {
				failed++
				first = cmp.Or(first, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	if first != nil {
		return gone, fmt.Errorf("%d of %d objects could not be deleted, the first of them: %w", failed, len(keys), first)
	}
	if err := ctx.Err(); err != nil {
		return gone, fmt.Errorf("not all of %d objects were deleted: %w", len(keys), err)
	}
	return gone, nil
}

// removeOne deletes an object. That there is none is what was wanted.
func (r *remover) removeOne(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if err := r.bucket.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}
