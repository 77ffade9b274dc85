package upkeep

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

const (
	// badRests is how long a segment that cannot be read is left alone.
	badRests = 10 * time.Minute
	// badAfter is how many steps in a row must fail at one segment, with an error
	// that may pass, before it is taken for one that cannot be read.
	badAfter = 3
)

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
	again blobwal.SegmentID               // where the last step failed, with an error that may pass,
	times int                             // and how many did so in a row
	plan  plan
	at    commands.Index // of the last change of a segment that the plan knows
	next  time.Time      // when to plan again at the earliest
}

// slowPlan is how long a plan may take before the next one has to wait. One that
// looked at fewSegments or less is not slow: the machine was busy.
const (
	slowPlan    = 50 * time.Millisecond
	fewSegments = 1 << 14
)

// backlog is the segments that the next step would rewrite. Planning looks at
// every segment, so it is done when one changed or came of age, and where there
// are so many that it is slow, it takes a twentieth of the time.
func (j *compact) backlog() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	view := j.cfg.Replica.View()
	begun := time.Now()
	if at := view.Segmented(); j.outdated(at, view.LogTime(), begun) && !begun.Before(j.next) {
		j.plan, j.at = choose(view, j.cfg.PackedBytes, j.usable), at
		if took := time.Since(begun); took >= slowPlan && view.Counts().Segments > fewSegments {
			j.next = begun.Add(20 * took)
		}
	}
	return uint64(len(j.plan.inputs))
}

// outdated tells whether another plan may be made than the last time.
func (j *compact) outdated(at commands.Index, logTime stream.Time, now time.Time) bool {
	if at != j.at || (j.plan.ripe > 0 && logTime >= j.plan.ripe) {
		return true
	}
	bad := len(j.bad)
	j.forgetRested(now)
	return len(j.bad) < bad
}

// forgetRested lets segments be tried again that could not be read a while ago.
func (j *compact) forgetRested(now time.Time) {
	maps.DeleteFunc(j.bad, func(_ blobwal.SegmentID, since time.Time) bool { return now.Sub(since) > badRests })
}

// usable leaves segments alone that cannot be read.
func (j *compact) usable(g *statemachine.Slotted) bool {
	_, bad := j.bad[j.id(&g.Segment)]
	return !bad
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
		return j.blame(r), err
	}
	j.times = 0
	s.Runs++
	s.Inputs += uint64(len(p.inputs))
	s.Unusable = len(j.bad)
	j.cfg.Logger.Debug("segments compacted", "why", p.why, "inputs", len(p.inputs), "outputs", r.sealed, "bytes", r.written,
		"extents", r.moved, "level", p.level, "took", time.Since(begun).Round(time.Millisecond))
	return true, nil
}

// blame leaves inputs alone for a while that cannot be read, so that the others
// need not wait for them, and tells whether there were any: then there is no
// reason to wait.
func (j *compact) blame(r *rewrite) (found bool) {
	j.forgetRested(time.Now())
	for _, s := range r.sources {
		if s.failed == nil {
			continue
		}
		var fault *blobwal.ObjectError
		if final := errors.As(s.failed, &fault); !final && !j.fails(s.id) {
			continue
		}
		if j.bad == nil {
			j.bad = map[blobwal.SegmentID]time.Time{}
		}
		j.bad[s.id] = time.Now()
		found = true
	}
	j.stats.Unusable = len(j.bad)
	return found
}

// fails counts the steps in a row that failed at a segment, and tells whether
// they are too many: a disk may fail at one file, or its access be denied, for
// ever.
func (j *compact) fails(id blobwal.SegmentID) bool {
	if j.again != id {
		j.again, j.times = id, 0
	}
	j.times++
	return j.times >= badAfter
}

// Compaction is what compaction did since the process started.
func (u *Upkeep) Compaction() Compaction {
	u.compact.mu.Lock()
	defer u.compact.mu.Unlock()
	return u.compact.stats
}
