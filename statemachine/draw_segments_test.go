package statemachine

import (
	"pgregory.net/rapid"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// slots are some that were given out, and at times one that was not.
func (d *drawer) slots() []uint32 {
	return rapid.SliceOfN(rapid.Uint32Range(0, uint32(d.s.counts.Slots)), 1, 6).Draw(d.t, "slots")
}

func (d *drawer) pack(n *node) *commands.Pack {
	m := &commands.Pack{Size: 1 << 24, Level: uint8(rapid.SampledFrom([]int{1, 1, 2, 0}).Draw(d.t, "level"))}
	m.Sequence, m.GivenUp = d.sequence(n)
	m.First, m.Last = d.id(), d.id()
	if m.First > m.Last && !d.chance(8, "streams out of order?") {
		m.First, m.Last = m.Last, m.First
	}
	m.Newest = d.s.logTime
	if d.chance(2, "long ago?") {
		m.Newest = 0
	}
	if d.chance(8, "in the future?") {
		m.Newest += 100_000
	}
	m.Oldest = m.Newest - stream.Time(rapid.SampledFrom([]int{0, 0, 1000, -1}).Draw(d.t, "oldest"))
	return m
}

// swap is one into a packed segment of the node, most of the time.
func (d *drawer) swap(n *node) *commands.Swap {
	var packed []Slotted
	segments, _ := d.s.View().Segments(0, 1000)
	for _, g := range segments {
		if (g.Node == n.Node.Node && g.Epoch == n.Epoch && g.Level > 0) || d.chance(20, "any segment?") {
			packed = append(packed, g)
		}
	}
	if len(packed) == 0 {
		return commands.NewSwap(0, 0, nil)
	}
	into := rapid.SampledFrom(packed).Draw(d.t, "into")
	if d.chance(20, "another sequence?") {
		into.Sequence++
	}
	var runs []commands.Run
	ordinal := rapid.Uint32Range(0, 3).Draw(d.t, "ordinal")
	for range rapid.IntRange(1, 5).Draw(d.t, "runs") {
		if run, ok := d.run(ordinal); ok {
			runs = append(runs, run)
			ordinal += uint32(run.Records())
		}
	}
	return commands.NewSwap(into.Slot, into.Sequence, runs)
}

// run is some extents of a stream as they are now, or nearly.
func (d *drawer) run(ordinal uint32) (run commands.Run, ok bool) {
	id := d.id()
	extents := d.s.View().Extents(id, 0, 1000)
	if len(extents) == 0 {
		return run, false
	}
	at := rapid.IntRange(0, len(extents)-1).Draw(d.t, "from")
	some := extents[at:min(len(extents), at+rapid.IntRange(1, 4).Draw(d.t, "pieces"))]
	run = commands.Run{ID: id, First: some[0].First, Ordinal: ordinal, Bytes: 9 * uint32(len(some))}
	for _, e := range some {
		run.Pieces = append(run.Pieces, commands.Piece{Slot: e.Segment, Ordinal: e.Ordinal, Count: e.Count(), Cut: e.Cut()})
	}
	last := &run.Pieces[len(run.Pieces)-1]
	switch rapid.IntRange(1, 30).Draw(d.t, "wrong") {
	case 1:
		run.First++
	case 2:
		last.Slot++
	case 3:
		last.Ordinal++
	case 4:
		last.Count, last.Cut = last.Count+1, false
	case 5:
		last.Count = max(1, last.Count-1)
	case 6:
		last.Count, last.Cut = 1, !last.Cut
	case 7:
		run.Pieces = append(run.Pieces, *last)
	case 8:
		run.Ordinal = rapid.Uint32Range(0, 20).Draw(d.t, "another ordinal")
	case 9:
		run.First -= min(1, run.First)
	}
	return run, true
}
