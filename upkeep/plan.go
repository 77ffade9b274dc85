package upkeep

import (
	"cmp"
	"slices"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// When compaction finds segments worth rewriting. A segment of level 0 is what an
// upload wrote; rewriting makes one of level 1, and merging [fanout] of a level
// that hold the same streams makes some of the next. So a stream lies in at most
// fanout pieces a level, and a record is rewritten about once a level, of which
// there are as many as the logarithm of the data: until its stream's pieces are
// longEnough to be read at full speed. Segments that stayed small are merged
// too, whatever streams they hold: those of streams that came and went in turn
// share none. What a merge writes is of the next level, so that nothing is merged
// for ever, and of small ones it is one segment.
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
	// ripe is the log time from which on segments of level 0 have waited long
	// enough, where only that keeps them from being the inputs; else 0.
	ripe stream.Time
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
	waiting := small(levels[0], view.LogTime(), packedBytes)
	if len(waiting.inputs) > 0 {
		return waiting
	}
	for level := uint8(1); level < 255; level++ {
		if p := merge(levels[level]); len(p.inputs) > 0 {
			return p
		}
		if p := gather(levels[level], packedBytes); len(p.inputs) > 0 {
			return p
		}
	}
	p := reclaim(levels, packedBytes)
	p.ripe = waiting.ripe
	return p
}

// small takes the oldest segments of level 0, as many as make a packed segment.
func small(list []statemachine.Slotted, now stream.Time, packedBytes int) (p plan) {
	list = oldest(list, maxInputs)
	bytes := uint64(0)
	n := 0
	for ; n < len(list); n++ {
		if bytes += list[n].Size; bytes > uint64(packedBytes) && n > 0 {
			break
		}
	}
	if n >= someSmall {
		p.ripe = list[0].Time + stream.Time(smallWaits.Milliseconds())
	}
	if bytes >= uint64(packedBytes) || n >= manySmall || (p.ripe > 0 && now >= p.ripe) {
		p = plan{why: "small", inputs: list[:n], level: 1}
	}
	return p
}

// merge takes segments of one level that hold the same streams in pieces too
// short to be read fast: where fanout overlap, the oldest of those that do.
func merge(list []statemachine.Slotted) (p plan) {
	var short []statemachine.Slotted
	for i := range list {
		if g := &list[i]; g.Referenced/uint64(g.Extents) < longEnough {
			short = append(short, *g)
		}
	}
	slices.SortFunc(short, func(a, b statemachine.Slotted) int { return cmp.Compare(a.First, b.First) })
	var open []statemachine.Slotted // those that reach to where the walk is
	for i, g := range short {
		open = slices.DeleteFunc(open, func(o statemachine.Slotted) bool { return o.Last < g.First })
		if open = append(open, g); len(open) < fanout {
			continue
		}
		last := slices.MinFunc(open, func(a, b statemachine.Slotted) int { return cmp.Compare(a.Last, b.Last) }).Last
		for _, g := range short[i+1:] { // that they all share a stream's place with
			if g.First > last {
				break
			}
			open, last = append(open, g), min(last, g.Last)
		}
		return plan{why: "pieces", inputs: oldest(open, maxMerge), level: g.Level + 1}
	}
	return p
}

// gather takes packed segments of one level so small that fanout of them make one.
func gather(list []statemachine.Slotted, packedBytes int) (p plan) {
	var few []statemachine.Slotted
	for i := range list {
		if g := &list[i]; g.Size < uint64(packedBytes)/fanout && g.Extents < blobwal.MaxPackedBlocks/4/fanout {
			few = append(few, *g)
		}
	}
	if len(few) < fanout {
		return p
	}
	return plan{why: "few", inputs: oldest(few, fanout), level: few[0].Level + 1}
}

// oldest is at most n of the segments, those that became known first.
func oldest(list []statemachine.Slotted, n int) []statemachine.Slotted {
	slices.SortFunc(list, func(a, b statemachine.Slotted) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Sequence, b.Sequence))
	})
	return slices.Clone(list[:min(len(list), n)]) // not to keep all of them in memory
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
