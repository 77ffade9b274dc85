package statemachine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// BenchmarkFork forks a stream of a million records at its tail, and deletes the
// fork. A fork costs what its parent has of extents, each in a segment of its
// own here, and nothing per record. Budget: a millisecond for a thousand of
// them.
func BenchmarkFork(b *testing.B) {
	const records = 1_000_000
	for _, extents := range []int{1, 1_000, 100_000, records} {
		b.Run(fmt.Sprintf("extents=%d", extents), func(b *testing.B) {
			s, l := populate(b, 0)
			s.Apply(l.entry(&commands.Create{Name: "parent"}))
			for range extents {
				s.Apply(l.commit([]commands.Append{{ID: 1, Records: uint32(records / extents), Bytes: 1 << 20}}))
			}
			fork, drop := time.Duration(0), time.Duration(0)
			for b.Loop() {
				start := time.Now()
				out := s.Apply(l.entry(&commands.Create{Name: "fork", Fork: &commands.Fork{Parent: 1}}))
				forked := time.Now()
				made := out.Proposals[0].Results[0]
				s.Apply(l.entry(&commands.Delete{ID: made.ID}))
				fork += forked.Sub(start)
				drop += time.Since(forked)
				if made.Tail != records {
					b.Fatal(made)
				}
			}
			b.ReportMetric(float64(fork.Nanoseconds())/1000/float64(b.N), "fork-µs")
			b.ReportMetric(float64(drop.Nanoseconds())/1000/float64(b.N), "delete-µs")
		})
	}
}

// BenchmarkCascade deletes the last of a thousand generations.
func BenchmarkCascade(b *testing.B) {
	const length = 1000
	for b.Loop() {
		b.StopTimer()
		s, l := dynasty(b, length)
		e := l.entry(&commands.Delete{ID: length})
		b.StartTimer()
		out := s.Apply(e)
		require.Len(b, out.Changed, length)
	}
}

// BenchmarkForkHeap measures what a fork of a stream with one extent takes.
// Budget: 500 bytes, with a name of 40.
func BenchmarkForkHeap(b *testing.B) {
	const forks = 200_000
	for b.Loop() {
		s, l := populate(b, 1)
		before := liveHeap()
		for i := range forks {
			s.Apply(l.entry(&commands.Create{Name: benchName(1 + i), Fork: &commands.Fork{Parent: 1}}))
		}
		b.ReportMetric(float64(liveHeap()-before)/forks, "B/fork")
		require.Equal(b, stream.Offset(1), s.View().Extents(forks, 0, 1)[0].End())
	}
}
