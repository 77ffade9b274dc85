package statemachine

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// swapEntry packs extents of streams, each a run of its own.
func swapEntry(tb require.TestingT, s *State, l *log, ids []stream.ID, choose func([]Located) []Located) *commands.Entry {
	var runs []commands.Run
	ordinal := uint32(0)
	for _, id := range ids {
		for _, e := range choose(s.View().Extents(id, 0, 1<<30)) {
			runs = append(runs, commands.Run{ID: id, First: e.First, Ordinal: ordinal, Bytes: e.Bytes, Pieces: []commands.Piece{piece(e.Extent)}})
			ordinal += 2 * e.Count() // none joins the one before
		}
	}
	slot := accepted(tb, s, l.entry(l.pack(0, 0)))[0].Segment
	e := l.entry(commands.NewSwap(slot, l.sequence, runs))
	require.Len(tb, runs, commands.MaxRuns)
	return e
}

// appendTo appends a record to each of some streams, in one segment.
func appendTo(tb require.TestingT, s *State, l *log, ids []stream.ID) {
	for len(ids) > 0 {
		n := min(len(ids), benchAppends)
		appends := make([]commands.Append, n)
		for i, id := range ids[:n] {
			appends[i] = commands.Append{ID: id, Records: 1, Bytes: 100}
		}
		accepted(tb, s, l.commit(appends))
		ids = ids[n:]
	}
}

// BenchmarkSwap decodes and applies swaps of as many runs as there may be. Of
// short streams the last extent moves, of long ones every second of 16,384: were
// each run to copy the list of extents, that would be quadratic.
func BenchmarkSwap(b *testing.B) {
	all := make([]stream.ID, commands.MaxRuns)
	for i := range all {
		all[i] = stream.ID(1 + i)
	}
	last := func(extents []Located) []Located { return extents[len(extents)-1:] }
	alternate := func(extents []Located) (some []Located) {
		for i := 0; i < len(extents) && len(some) < commands.MaxRuns; i += 2 {
			some = append(some, extents[i])
		}
		return some
	}
	for _, bench := range []struct {
		name   string
		ids    []stream.ID
		before int // appends before the first swap
		choose func([]Located) []Located
	}{
		{"short", all, 0, last},
		{"long", all[:1], 2 * commands.MaxRuns, alternate},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s, l := populate(b, len(all))
			for range bench.before {
				appendTo(b, s, l, bench.ids)
			}
			for b.Loop() {
				b.StopTimer()
				appendTo(b, s, l, bench.ids)
				e := swapEntry(b, s, l, bench.ids, bench.choose)
				payload := e.Encode()
				b.StartTimer()
				decoded, err := commands.DecodePayload(payload)
				if err != nil {
					b.Fatal(err)
				}
				out := s.Apply(&commands.Entry{Index: e.Index, DatabaseTime: e.DatabaseTime, Payload: decoded})
				b.StopTimer()
				require.Equal(b, uint32(commands.MaxRuns), out.Proposals[0].Results[0].Removed)
				b.ReportMetric(float64(len(payload))/commands.MaxRuns, "B/run")
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/swap")
		})
	}
}

// BenchmarkSegmentHeap measures what lives of a segment without references.
func BenchmarkSegmentHeap(b *testing.B) {
	const segments = 200_000
	for b.Loop() {
		before := liveHeap()
		s, l := New(), &log{}
		s.Apply(l.register())
		for range segments {
			accepted(b, s, l.commit(nil))
		}
		b.ReportMetric(float64(liveHeap()-before)/segments, "B/segment")
		runtime.KeepAlive(s)
	}
}
