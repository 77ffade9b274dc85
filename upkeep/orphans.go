package upkeep

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/blobwal"
)

// sweepPage is how many objects one step lists.
const sweepPage = 1000

// maxRefused is how often in a row a page is asked for before the pass begins anew.
const maxRefused = 5

// Sweep is what a comparison of the bucket with the log found.
type Sweep struct {
	Ended   time.Time // zero: there was none yet
	Objects uint64    // segments listed
	Bytes   uint64    // of them
	Orphans uint64    // deleted, since nothing refers to them
	Foreign uint64    // keys among those of segments that are none
	Missing uint64    // segments that streams may refer to and that have no object
	Damaged uint64    // such segments whose object has another size
}

// orphans compares the bucket's segments with the log's: a pass is a listing, a
// page a step, then a look at what the listing did not have. It deletes what
// uploads left that no commit came for, and says what is missing.
type orphans struct {
	*Upkeep
	*remover
	pass    *catalogue // nil between passes
	token   []byte     // of the page to list; nil at first
	refused int        // times in a row that the page was not listed
	listed  bool       // what is left of the pass are segments that were not listed
	at      int        // the known segment to look at then
	found   Sweep      // in this pass
	left    atomic.Uint64
	told    atomic.Pointer[Sweep]
}

// backlog is the orphans of the pass that could not be deleted.
func (j *orphans) backlog() uint64 { return j.left.Load() }

func (j *orphans) step(ctx context.Context, now time.Time) (more bool, err error) {
	if j.pass == nil {
		j.pass = takeCatalogue(j.cfg.Replica.View())
		j.token, j.refused, j.listed, j.at, j.found = nil, 0, false, 0, Sweep{}
		j.left.Store(0)
	}
	if !j.listed {
		return j.page(ctx, now)
	}
	if more, err := j.lookForMissing(ctx); more || err != nil {
		return more, err
	}
	j.found.Ended = now
	found := j.found
	j.told.Store(&found)
	j.pass = nil
	return false, nil
}

// page lists a page and deletes the orphans on it.
func (j *orphans) page(ctx context.Context, now time.Time) (more bool, err error) {
	prefix := blobwal.LogPrefix(j.cfg.Identity.Cluster, j.cfg.Identity.Log)
	page, err := blobwal.ListSegmentPage(ctx, j.cfg.Bucket, prefix, j.token, sweepPage)
	if err != nil {
		if j.refused++; j.refused == maxRefused {
			j.pass = nil // the bucket may not know the token any more: begin anew
		}
		return false, err
	}
	j.refused = 0
	var keys []string
	for i := range page.Objects {
		if j.isOrphan(&page.Objects[i], now) {
			keys = append(keys, page.Objects[i].Key)
		}
	}
	// Before the deletes: what cannot be deleted must not hold up the rest.
	j.token, j.listed = page.Next, page.Next == nil
	if len(keys) == 0 {
		return true, nil
	}
	if err := j.mayDelete(ctx); err != nil {
		j.left.Add(uint64(len(keys)))
		return false, err // the log may have lost what fenced their node
	}
	gone, err := j.remove(ctx, keys)
	for i := range gone {
		if gone[i] {
			j.found.Orphans++
			j.cfg.Logger.Info("an object that nothing refers to was deleted", "key", keys[i])
		} else {
			j.left.Add(1)
		}
	}
	return err == nil, err
}

// isOrphan notes that an object is there and tells whether it may be deleted.
// That it is old is not needed for that: it is one more thing that must not be
// as it should before a record is lost.
func (j *orphans) isOrphan(o *blobwal.Listed, now time.Time) bool {
	if !o.IsSegment {
		j.found.Foreign++
		return false
	}
	j.found.Objects++
	j.found.Bytes += o.Size
	if known := j.pass.find(o.Segment); known != nil {
		known.seen = true
		j.checkSize(known, o)
		return false
	}
	old := !o.Modified.IsZero() && now.Sub(o.Modified) > j.cfg.Grace
	return old && j.pass.orphan(j.cfg.Replica.View(), o.Segment)
}

// Swept is what the last complete comparison of bucket and log found, on this
// node.
func (u *Upkeep) Swept() Sweep {
	if s := u.sweep.told.Load(); s != nil {
		return *s
	}
	return Sweep{}
}
