package upkeep

import (
	"context"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

const (
	// collectEvery is how often dead segments are looked for.
	collectEvery = 10 * time.Second
	// scanSegments is about how many segments one step looks at.
	scanSegments = 1 << 14
	// collectBatch is how many objects one step deletes: few, so that little is
	// done twice when the command after it is lost.
	collectBatch = 256
)

// collect gives segments back that nothing refers to, in three steps of which
// each rests on what the log says about the one before, so that a crash between
// any two leaves what the next pass finds:
//
//	dead, not doomed        Doom: no command will refer to it any more
//	doomed for the grace    its object is deleted; that it is gone already is as good
//	doomed, object deleted  Collected: its slot is free
//
// An object that could not be deleted keeps its segment doomed, whatever became
// of the others.
type collect struct {
	*Upkeep
	*remover
	slot uint32 // where the scan goes on
}

// backlog is the dead segments, doomed ones included.
func (j *collect) backlog() uint64 { return j.cfg.Replica.View().Counts().Dead }

func (j *collect) step(ctx context.Context, _ time.Time) (more bool, err error) {
	view := j.cfg.Replica.View()
	list, next := view.Segments(j.slot, scanSegments)
	dead, ripe := j.sort(list, view.LogTime(), view.ActiveTime())
	if err := j.doom(ctx, dead); err != nil {
		return false, err
	}
	if len(ripe) > collectBatch {
		// The rest of them is found by a step from here on.
		ripe, next = ripe[:collectBatch], ripe[collectBatch].Slot
	}
	j.slot = next // also past what cannot be deleted
	freed, err := j.collect(ctx, ripe)
	return next != 0 && (err == nil || freed > 0), err
}

// sort picks the segments to doom now and those whose grace is over. The grace
// counts active time: neither a clock that jumps nor an hour without the log ends
// it for readers that are on their way.
func (j *collect) sort(list []statemachine.Slotted, now stream.Time, active int64) (dead []uint32, ripe []statemachine.Slotted) {
	grace := j.cfg.Grace.Milliseconds()
	for _, s := range list {
		switch {
		case s.Doomed != 0:
			if active-s.Doomed >= grace {
				ripe = append(ripe, s)
			}
		case !s.Dead():
		case s.Level > 0 && int64(now-s.Time) < grace:
			// Between its Pack and its Swap nothing refers to a packed segment either.
		default:
			dead = append(dead, s.Slot)
		}
	}
	return dead, ripe
}

func (j *collect) doom(ctx context.Context, slots []uint32) error {
	for len(slots) > 0 {
		n := min(len(slots), commands.MaxSlots)
		if _, err := j.cfg.Replica.Propose(ctx, &commands.Doom{Slots: slots[:n:n]}); err != nil {
			return err
		}
		slots = slots[n:]
	}
	return nil
}

// collect deletes the objects of doomed segments, frees the slots of those that
// are deleted, and says how many. Which object a segment has follows from its row, so that an
// old row names an object that nothing refers to even when its slot has another
// segment by now.
func (j *collect) collect(ctx context.Context, list []statemachine.Slotted) (freed int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	if err := j.mayDelete(ctx); err != nil {
		return 0, err // the log may have lost what doomed them
	}
	keys := make([]string, len(list))
	for i := range list {
		keys[i] = j.key(&list[i].Segment)
	}
	gone, failed := j.remove(ctx, keys)
	view := j.cfg.Replica.View()
	var slots []uint32
	var ids []blobwal.SegmentID
	for i, s := range list {
		if !gone[i] {
			continue
		}
		ids = append(ids, j.id(&s.Segment))
		// Another holder of the lease may have freed the slot meanwhile.
		if now, ok := view.Segment(s.Slot); ok && same(&now, &s.Segment) {
			slots = append(slots, s.Slot)
		}
	}
	j.cfg.Cache.Evict(ids...)
	if len(slots) > 0 {
		if _, err := j.cfg.Replica.Propose(ctx, &commands.Collected{Slots: slots}); err != nil {
			return 0, err
		}
	}
	return len(slots), failed
}

// same tells whether two rows are of one segment.
func same(a, b *statemachine.Segment) bool {
	return a.Node == b.Node && a.Epoch == b.Epoch && a.Sequence == b.Sequence
}

// id names a segment of the catalogue in the bucket.
func (u *Upkeep) id(s *statemachine.Segment) blobwal.SegmentID {
	return blobwal.SegmentID{Log: u.cfg.Identity.Log, Node: uint32(s.Node), Epoch: uint64(s.Epoch), Sequence: s.Sequence}
}

// key is where the object of a segment of the catalogue lies.
func (u *Upkeep) key(s *statemachine.Segment) string {
	return blobwal.Key(u.cfg.Identity.Cluster, u.id(s))
}
