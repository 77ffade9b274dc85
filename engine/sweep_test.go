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

// TestStreamsAreReadAheadOfWhoeverGoesThroughThem reads many streams whole, one after
// the other, of which nothing is in memory. One segment is spoiled.
func TestStreamsAreReadAheadOfWhoeverGoesThroughThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, size = 60, 10_000
		name := func(i int) stream.Name { return stream.Name(fmt.Sprintf("s/%03d", i)) }
		w := newWorld(t)
		n := w.start(nil)
		for i := range streams {
			n.create(t, name(i), "application/octet-stream")
		}
		for i := range 2 * streams {
			n.append(t, name(i%streams), fmt.Sprintf("%0*d", size, i))
		}
		n.stop()

		n = w.start(nil)
		defer n.stop()
		var running, most, gets, twice atomic.Int64
		spoiled := atomic.Pointer[string]{}
		w.faults.SetPlan(func(op faultbucket.Op) (d faultbucket.Decision) {
			if op.Kind != faultbucket.Get || !strings.HasSuffix(op.Key, ".seg") {
				return d
			}
			if gets.Add(1) == streams { // one of those in the midst
				spoiled.Store(&op.Key)
			}
			if key := spoiled.Load(); key != nil && *key == op.Key {
				d.Cut = 100
			} else if op.Nth > 0 {
				twice.Add(1)
			}
			for now := running.Add(1); now > most.Load(); {
				most.Store(now)
			}
			time.Sleep(5 * time.Millisecond)
			running.Add(-1)
			return d
		})
		failed := 0
		for i := range streams {
			chunk, err := n.Read(t.Context(), name(i), stream.ReadRequest{MaxBytes: 1 << 20})
			if err != nil {
				require.Equal(t, stream.CodeInternal, stream.CodeOf(err))
				failed++
				continue
			}
			require.Equal(t, stream.Offset(2), chunk.Next)
			for j, at := range []int{i, streams + i} {
				require.Equal(t, fmt.Sprintf("%0*d", size, at), string(chunk.Runs[j].Body(0)))
			}
		}
		assert.Equal(t, 1, failed, "whoever asks for what is spoiled, and nobody else")
		assert.Greater(t, most.Load(), int64(8), "several gets at a time")
		assert.Zero(t, twice.Load(), "and none twice but what was spoiled")
		w.faults.SetPlan(nil)
	})
}
