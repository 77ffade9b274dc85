package engine_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
)

// TestExtentsAreReadAhead reads a stream that lies in many segments, of which
// nothing is in memory, in requests that each go on where the last one ended.
func TestExtentsAreReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const segments, size = 40, 10_000
		w := newWorld(t)
		n := w.start(nil)
		n.create(t, "a", "application/octet-stream")
		for i := range segments {
			n.append(t, "a", fmt.Sprintf("%0*d", size, i))
		}
		n.stop()

		for _, perRequest := range []int{size, 100 * size} {
			var running, most, gets atomic.Int64
			n := w.start(nil)
			w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
				if op.Kind == faultbucket.Get && strings.HasSuffix(op.Key, ".seg") {
					gets.Add(1)
					for now := running.Add(1); now > most.Load(); {
						most.Store(now)
					}
					time.Sleep(5 * time.Millisecond)
					running.Add(-1)
				}
				return faultbucket.Decision{}
			})
			next := stream.Offset(0)
			for next < segments {
				chunk, err := n.Read(t.Context(), "a", stream.ReadRequest{From: stream.At(next), MaxBytes: perRequest})
				require.NoError(t, err)
				for i := range chunk.Runs {
					run := &chunk.Runs[i]
					for j := range run.Len() {
						require.Equal(t, fmt.Sprintf("%0*d", size, next), string(run.Body(j)))
						next++
					}
				}
				require.Equal(t, next, chunk.Next)
			}
			assert.Greater(t, most.Load(), int64(1), "several gets at a time")
			assert.Equal(t, int64(segments), gets.Load(), "and none twice")
			w.faults.SetPlan(nil)
			n.stop()
		}
	})
}

// BenchmarkRead is what a delivered record costs where its block is in memory.
func BenchmarkRead(b *testing.B) {
	w := newWorld(b)
	n := w.start(nil)
	n.create(b, "a", "application/octet-stream")
	n.append(b, "a", make([]string, 1000)...)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		chunk, err := n.Read(b.Context(), "a", stream.ReadRequest{MaxBytes: 1 << 20})
		require.NoError(b, err)
		require.Equal(b, stream.Offset(1000), chunk.Next)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
}
