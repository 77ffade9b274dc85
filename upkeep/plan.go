package upkeep

import (
	"cmp"
	"slices"
	"time"

	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// When compaction finds segments worth rewriting. A segment of level 0 is what an
// upload wrote; rewriting makes one of level 1, and merging [fanout] of a level
// that hold the same streams makes some of the next. So a stream lies in at most
// fanout pieces a level, and a record is rewritten about once a level, of which
// there are as many as the logarithm of the data: until its stream's pieces are
// longEnough to be read at full speed.
const (
	manySmall  = 1024        // segments of level 0 that are rewritten at once,
	someSmall  = 32          // or so many if the oldest waits
	smallWaits = time.Minute // for so long, in log time
	maxInputs  = 4096        // segments of level 0 that one step rewrites at most
	fanout     = 8
	maxMerge   = 16      // segments that one step merges at most
	longEnough = 1 << 20 // bytes an extent
)

// plan is what one compaction rewrites.
type plan struct {
	why    string // for the log
	inputs []statemachine.Slotted
	level  uint8 // of what it writes
}

// choose finds the segments most worth rewriting, or none. usable leaves out
// those that cannot be read.
func choose(view statemachine.View, packedBytes int, usable func(*statemachine.Slotted) bool) plan {
	levels := map[uint8][]statemachine.Slotted{}
	for from := uint32(0); ; {
		list, next := view.Segments(from, 1<<14)
		for i := range list {
			if g := &list[i]; !g.Dead() && usable(g) {
				levels[g.Level] = append(levels[g.Level], *g)
			}
		}
		if from = next; from == 0 {
			break
		}
	}
	if p := small(levels[0], view.LogTime(), packedBytes); len(p.inputs) > 0 {
		return p
	}
	for level := uint8(1); level < 255; level++ {
		if p := merge(levels[level]); len(p.inputs) > 0 {
			return p
		}
	}
	return reclaim(levels, packedBytes)
}

// small takes the oldest segments of level 0, as many as make a packed segment.
func small(list []statemachine.Slotted, now stream.Time, packedBytes int) (p plan) {
	slices.SortFunc(list, func(a, b statemachine.Slotted) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Sequence, b.Sequence))
	})
	bytes := uint64(0)
	n := 0
	for ; n < min(len(list), maxInputs); n++ {
		if bytes += list[n].Size; bytes > uint64(packedBytes) && n > 0 {
			break
		}
	}
	waits := n >= someSmall && int64(now-list[0].Time) >= smallWaits.Milliseconds()
	if bytes >= uint64(packedBytes) || n >= manySmall || waits {
		p = plan{why: "small", inputs: list[:n], level: 1}
	}
	return p
}

// merge takes segments of one level that hold the same streams in pieces too
// short to be read fast: the oldest that overlap where fanout do.
func merge(list []statemachine.Slotted) (p plan) {
	list = slices.DeleteFunc(list, func(g statemachine.Slotted) bool {
		return g.Referenced/uint64(g.Extents) >= longEnough
	})
	slices.SortFunc(list, func(a, b statemachine.Slotted) int { return cmp.Compare(a.First, b.First) })
	var open []statemachine.Slotted // those that reach to where the walk is
	for _, g := range list {
		open = slices.DeleteFunc(open, func(o statemachine.Slotted) bool { return o.Last < g.First })
		if open = append(open, g); len(open) < fanout {
			continue
		}
		slices.SortFunc(open, func(a, b statemachine.Slotted) int { return cmp.Compare(a.Time, b.Time) })
		return plan{why: "pieces", inputs: open[:min(len(open), maxMerge)], level: g.Level + 1}
	}
	return p
}

// reclaim takes packed segments of which more than half is no longer referred
// to, once that is worth a packed segment's half.
func reclaim(levels map[uint8][]statemachine.Slotted, packedBytes int) (p plan) {
	var list []statemachine.Slotted
	for level, all := range levels {
		for _, g := range all {
			if level > 0 && g.Referenced < g.Size/2 {
				list = append(list, g)
			}
		}
	}
	slices.SortFunc(list, func(a, b statemachine.Slotted) int { return cmp.Compare(a.Slot, b.Slot) })
	kept, freed := uint64(0), uint64(0)
	for _, g := range list[:min(len(list), maxMerge)] {
		kept, freed = kept+g.Referenced, freed+g.Size-g.Referenced
		p.inputs, p.level = append(p.inputs, g), max(p.level, g.Level)
		if kept >= uint64(packedBytes) {
			break
		}
	}
	if freed < uint64(packedBytes)/2 && len(p.inputs) < maxMerge {
		return plan{}
	}
	p.why = "garbage"
	return p
}
