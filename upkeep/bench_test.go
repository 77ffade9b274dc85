package upkeep_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
)

// Data of the benchmarks: so many streams, each with so many records of 100 bytes,
// written round robin, so that every segment has records of most streams.
const (
	benchStreams = 500
	benchRounds  = 60
	benchRecord  = 100
)

// fill writes the data, a round at a time, and returns the bytes of the records.
func fill(b *testing.B, s *server) int {
	b.Helper()
	body := []stream.Record{{Body: []byte(strings.Repeat("r", benchRecord))}}
	name := func(i int) stream.Name { return stream.Name(fmt.Sprint("s", i)) }
	for i := range benchStreams {
		_, err := s.Create(b.Context(), name(i), &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}})
		require.NoError(b, err)
	}
	for range benchRounds {
		var round sync.WaitGroup
		for i := range benchStreams {
			round.Go(func() {
				if _, err := s.Append(b.Context(), name(i), &stream.AppendRequest{Records: body}); err != nil {
					b.Error(err)
				}
			})
		}
		round.Wait()
	}
	return benchStreams * benchRounds * benchRecord
}

// compactAll compacts until there is nothing left to do.
func (w *world) compactAll(b *testing.B, s *server) {
	b.Helper()
	for idle := 0; idle < 3; idle++ { // a plan may have to wait on a slow machine
		before := s.upkeep.Compaction().Runs
		w.clock.Add(2 * time.Minute.Milliseconds())
		require.NoError(b, s.upkeep.Step(b.Context(), w.now()))
		if s.upkeep.Compaction().Runs != before {
			idle = -1
		}
		time.Sleep(time.Millisecond)
	}
}

// BenchmarkCompact is what it costs to rewrite what appends wrote: packed bytes per
// byte written by appends, and requests of the bucket for a million appends, those
// of the appends themselves beside them.
func BenchmarkCompact(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b)
		s := w.serve(b, 1<<20, 1<<20)
		fill(b, s)
		wal := s.Writer().Bytes
		puts := w.faults.Count(faultbucket.Put)
		requests := func() int { return w.faults.Count(faultbucket.Put) + w.faults.Count(faultbucket.Get) }
		before := requests()
		b.StartTimer()
		w.compactAll(b, s)
		b.StopTimer()
		const appends = benchStreams * benchRounds
		stats := s.upkeep.Compaction()
		b.SetBytes(int64(wal))
		b.ReportMetric(float64(stats.Written)/float64(wal), "rewritten/written")
		b.ReportMetric(float64(puts)*1e6/appends, "puts/1M-appends")
		b.ReportMetric(float64(requests()-before)*1e6/appends, "compaction-requests/1M-appends")
		b.ReportMetric(float64(s.replica.View().Counts().Extents)/benchStreams, "extents/stream")
		s.stop()
		b.StartTimer()
	}
}

// BenchmarkCatchUp reads every stream from its start, with nothing in memory.
func BenchmarkCatchUp(b *testing.B) {
	for _, compacted := range []bool{false, true} {
		b.Run(fmt.Sprintf("compacted=%v", compacted), func(b *testing.B) {
			w := newWorld(b)
			s := w.serve(b, 1<<20, 1<<20)
			bytes := fill(b, s)
			if compacted {
				w.compactAll(b, s)
			}
			b.SetBytes(int64(bytes))
			for b.Loop() {
				b.StopTimer()
				s.stop()
				s = w.serve(b, 1, 1<<20)
				gets := w.faults.Count(faultbucket.Get)
				b.StartTimer()
				for i := range benchStreams {
					c, err := s.Read(b.Context(), stream.Name(fmt.Sprint("s", i)), stream.ReadRequest{MaxBytes: 1 << 20})
					require.NoError(b, err)
					require.True(b, c.UpToDate)
				}
				b.ReportMetric(float64(w.faults.Count(faultbucket.Get)-gets)/benchStreams, "gets/stream")
			}
		})
	}
}
