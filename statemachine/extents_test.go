package statemachine

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// TestExtentsAgainstOffsets adds and drops extents, few and many, and compares
// what finds them with their offsets written down.
func TestExtentsAgainstOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x extents
		var want []Extent
		start, tail := stream.Offset(0), stream.Offset(0)
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"push", "push", "drop", "shorten", "make"}).Draw(t, "do") {
			case "push":
				for i := range rapid.IntRange(1, 3*markEvery).Draw(t, "n") {
					e := makeExtent(tail, uint32(i), 0, uint32(1+i%3), 9)
					x.rows = roomFor(x.rows, e)
					x.push(e, start)
					want, tail = append(want, e), e.End()
				}
			case "drop":
				n := rapid.IntRange(0, len(want)).Draw(t, "n")
				x = x.without(n, rapid.Bool().Draw(t, "share"))
				want, start = want[n:], tail
				if len(want) > 0 {
					start = want[0].First
				}
			case "shorten":
				if len(want) > 0 && want[0].Count() > 1 {
					want[0] = want[0].tail(1)
					x.rows[0], start = want[0].stored(), want[0].First
				}
			case "make":
				x = makeExtents(x.rows, start)
			}
			compareExtents(t, &x, want, start, tail)
		}
	})
}

func compareExtents(t *rapid.T, x *extents, want []Extent, start, tail stream.Offset) {
	require.Len(t, x.rows, len(want))
	require.Equal(t, len(want) >= indexFrom, x.index != nil)
	for i, e := range x.all(start) {
		require.Equal(t, want[i], e)
		require.Equal(t, e.First, x.offset(start, i))
		for _, at := range []stream.Offset{e.First, e.End() - 1} {
			place, first := x.find(start, at)
			require.Equal(t, i, place)
			require.Equal(t, e.First, first)
		}
	}
	require.Equal(t, tail, x.offset(start, len(want)))
	for _, at := range []stream.Offset{tail, tail + 9} {
		place, first := x.find(start, at)
		require.Equal(t, len(want), place)
		require.Equal(t, tail, first)
	}
	if start > 0 {
		place, first := x.find(start, start-1)
		require.Zero(t, place)
		require.Equal(t, start, first)
	}
}

// TestManyExtents trims, forks, packs and restores a stream of so many extents
// that they have an index.
func TestManyExtents(t *testing.T) {
	s, l := populate(t, 1)
	for range 5 * indexFrom {
		commitEach(t, s, l, commands.Append{ID: 1, Records: 2, Bytes: 20})
	}
	accepted(t, s, l.entry(&commands.Trim{ID: 1, To: 2*indexFrom + 8}))
	at := stream.Offset(5 * indexFrom)
	accepted(t, s, l.entry(&commands.Create{Name: "fork", Fork: &commands.Fork{Parent: 1, At: &at}}))
	var run commands.Run
	for _, e := range s.View().Extents(1, at, 2*markEvery) {
		if run.Pieces == nil {
			run.First, run.ID = e.First, 1
		}
		run.Pieces = append(run.Pieces, piece(e.Extent))
		run.Bytes += e.Bytes
	}
	slot := accepted(t, s, l.entry(l.pack(0, s.logTime)))[0].Segment
	accepted(t, s, l.entry(commands.NewSwap(slot, l.sequence, []commands.Run{run})))
	require.Equal(t, s.items, s.recompute())
	for _, s := range []*State{s, restore(t, encode(t, s.BeginSnapshot()))} {
		for _, id := range []stream.ID{1, 2} {
			st, _ := s.View().Stream(id)
			next := st.Start
			for next < st.Tail {
				e := s.View().Extents(id, next, 1)[0]
				require.Equal(t, next, e.First)
				next = e.End()
			}
			require.Equal(t, st.Tail, next)
			require.Empty(t, s.View().Extents(id, next, 1))
		}
	}
}
