package upkeep

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
)

// badRests is how long a segment that cannot be read is left alone.
const badRests = 10 * time.Minute

// Compaction counts what compaction did since the process started.
type Compaction struct {
	Runs     uint64 // compactions that ended well
	Inputs   uint64 // segments that were rewritten
	Outputs  uint64 // packed segments that were written
	Read     uint64 // bytes read from the bucket; what was still in memory is not
	Written  uint64 // bytes of packed segments
	Extents  uint64 // that were replaced
	Unusable int    // segments that cannot be read, at present
}

// compact rewrites many small segments into few large ones, ordered by stream.
//
// A step takes the segments that [choose] finds, copies the records that streams
// still have in them into packed segments, and lets the streams point there. What
// it did not come to, because it failed or the process ended, is still where it
// was: objects that no command names are orphans, packed segments that no stream
// points to are dead, and the next step begins anew.
type compact struct {
	*Upkeep

	mu    sync.Mutex
	stats Compaction
	bad   map[blobwal.SegmentID]time.Time // segments that cannot be read, since when
	plan  plan
	at    commands.Index // of the state that the plan was made for
	again time.Time      // when to plan again at the earliest
}

// slowPlan is how long a plan may take before the next one has to wait.
const slowPlan = 50 * time.Millisecond

// backlog is the segments that the next step would rewrite. Planning looks at
// every segment: where there are so many that it is slow, it takes a twentieth of
// the time.
func (j *compact) backlog() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	view := j.cfg.Replica.View()
	begun := time.Now()
	if at := view.Index(); at != j.at && !begun.Before(j.again) {
		j.plan, j.at = choose(view, j.cfg.PackedBytes, j.usable), at
		if took := time.Since(begun); took >= slowPlan {
			j.again = begun.Add(20 * took)
		}
	}
	return uint64(len(j.plan.inputs))
}

// usable leaves segments alone that could not be read a while ago.
func (j *compact) usable(g *statemachine.Slotted) bool {
	since, bad := j.bad[idOf(g)]
	return !bad || time.Since(since) > badRests
}

func idOf(g *statemachine.Slotted) blobwal.SegmentID {
	return blobwal.SegmentID{Node: uint32(g.Node), Epoch: uint64(g.Epoch), Sequence: g.Sequence}
}

func (j *compact) step(ctx context.Context, _ time.Time) (more bool, err error) {
	j.mu.Lock()
	p := j.plan
	j.plan, j.at = plan{}, 0 // plan anew, whatever comes of this
	j.mu.Unlock()
	if len(p.inputs) == 0 {
		return false, nil
	}
	begun := time.Now()
	r := newRewrite(j.Upkeep, p)
	err = r.run(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	s := &j.stats
	s.Outputs, s.Read, s.Written, s.Extents = s.Outputs+r.sealed, s.Read+uint64(r.read), s.Written+r.written, s.Extents+r.moved
	if err != nil {
		return j.blame(err, &p)
	}
	s.Runs++
	s.Inputs += uint64(len(p.inputs))
	s.Unusable = len(j.bad)
	j.cfg.Logger.Debug("segments compacted", "why", p.why, "inputs", len(p.inputs), "outputs", r.sealed, "bytes", r.written,
		"extents", r.moved, "level", p.level, "took", time.Since(begun).Round(time.Millisecond))
	return true, nil
}

// blame leaves an input alone for a while when it is the one that cannot be read,
// so that the others need not wait for it.
func (j *compact) blame(err error, p *plan) (more bool, _ error) {
	var fault *blobwal.ObjectError
	if !errors.As(err, &fault) {
		return false, err
	}
	for id, since := range j.bad {
		if time.Since(since) > badRests {
			delete(j.bad, id)
		}
	}
	for i := range p.inputs {
		if id := idOf(&p.inputs[i]); blobwal.Key(j.cfg.Identity.Cluster, id) == fault.Key {
			if j.bad == nil {
				j.bad = map[blobwal.SegmentID]time.Time{}
			}
			j.bad[id] = time.Now()
			j.stats.Unusable = len(j.bad)
		}
	}
	return false, err
}

// Compaction is what compaction did since the process started.
func (u *Upkeep) Compaction() Compaction {
	u.compact.mu.Lock()
	defer u.compact.mu.Unlock()
	return u.compact.stats
}
