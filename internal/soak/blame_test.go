package soak

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"

	"github.com/picomq/picomq/stream"
)

// TestWhatIsLeftOverIsFound shows that the checks at the end can fail.
func TestWhatIsLeftOverIsFound(t *testing.T) {
	t.Parallel() // most of it is waiting
	var w *world
	var keys, segments []string
	change := func(f func(*blob.Bucket)) {
		bucket, free, err := w.openBucket()
		require.NoError(t, err)
		f(bucket)
		require.NoError(t, free())
	}
	for seed := uint64(1); len(segments) == 0; seed++ { // a slow life may delete all that it created
		require.Less(t, seed, uint64(10))
		w = newWorld(Config{Folder: t.TempDir(), Seed: seed, Lasts: 500 * time.Millisecond, Nodes: 1, Workers: 2, Log: t.Logf})
		require.NoError(t, w.run(t.Context()))
		require.NoError(t, w.accounted(t.Context(), w.last))
		keys = nil
		change(func(b *blob.Bucket) {
			for key, err := range objects(t.Context(), b) {
				require.NoError(t, err)
				if keys = append(keys, key); strings.HasSuffix(key, ".seg") {
					segments = append(segments, key)
				}
			}
		})
	}
	orphan := strings.TrimSuffix(segments[0], "0.seg") + "f.seg"
	require.NotContains(t, keys, orphan)
	change(func(b *blob.Bucket) { require.NoError(t, b.WriteAll(t.Context(), orphan, []byte("x"), nil)) })
	require.ErrorContains(t, w.accounted(t.Context(), w.last), "nothing knows: ["+orphan)
	change(func(b *blob.Bucket) {
		require.NoError(t, b.Delete(t.Context(), orphan))
		require.NoError(t, b.Delete(t.Context(), segments[0]))
	})
	require.ErrorContains(t, w.accounted(t.Context(), w.last), "it lacks: ["+segments[0])
	change(func(b *blob.Bucket) {
		require.NoError(t, b.WriteAll(t.Context(), segments[0], []byte("x"), &blob.WriterOptions{ContentType: "application/octet-stream"}))
	})
	require.ErrorContains(t, w.accounted(t.Context(), w.last), "fsck found")
}

// TestReadsAreCompared shows that the model refuses what is not as it must be.
func TestReadsAreCompared(t *testing.T) {
	w := newWorld(Config{Seed: 1})
	x := newWorker(w, 0, 1)
	list := []record{{seed: 1, size: 10, time: 5}, {seed: 2, size: 3, time: 6}}
	l := &life{}
	chunk := func(change func(c *stream.Chunk)) *stream.Chunk {
		run := func(i int) stream.Run {
			body := list[i].body(false)
			return stream.Run{First: stream.Offset(i), Time: list[i].time, Bodies: body, Ends: []uint32{uint32(len(body))}}
		}
		c := &stream.Chunk{Next: 2, Runs: []stream.Run{run(0), run(1)}, UpToDate: true}
		change(c)
		return c
	}
	for what, change := range map[string]func(*stream.Chunk){
		"a byte":       func(c *stream.Chunk) { c.Runs[1].Bodies[2] ^= 1 },
		"a time":       func(c *stream.Chunk) { c.Runs[1].Time++ },
		"an offset":    func(c *stream.Chunk) { c.Runs[1].First++ },
		"one too few":  func(c *stream.Chunk) { c.Runs = c.Runs[:1] },
		"the tail":     func(c *stream.Chunk) { c.UpToDate = false },
		"one too many": func(c *stream.Chunk) { c.Runs = append(c.Runs, c.Runs[1]); c.Runs[2].First = 2; c.Next = 3 },
	} {
		m := &model{name: "s", kept: append([]record(nil), list...)}
		r := reading{ReadRequest: stream.ReadRequest{MaxBytes: 100}}
		require.NoError(t, x.compare(m, r, chunk(func(*stream.Chunk) {}), l))
		require.Error(t, x.compare(m, r, chunk(change), l), what)
	}
}

// TestRetentionMayNotTakeMore: the model allows a start no further than the bounds
// of a stream do.
func TestRetentionMayNotTakeMore(t *testing.T) {
	now := time.Now().UnixMilli()
	kept := make([]record, 10)
	for i := range kept {
		kept[i] = record{size: 1000, time: stream.Time(now - 10_000 + int64(i)*1000)}
	}
	m := &model{start: 5, kept: kept}
	require.True(t, m.mayStart(5))
	require.False(t, m.mayStart(6), "it keeps all")
	require.False(t, m.mayStart(4), "it never moves back")
	m.config.Retention.Age = 5
	require.True(t, m.mayStart(9))
	require.False(t, m.mayStart(12))
	m.config.Retention = stream.Retention{Bytes: 3000}
	require.True(t, m.mayStart(12))
	require.False(t, m.mayStart(14))
	require.False(t, m.mayStart(16), "beyond the tail")
}

// TestACrashIsTheEnd: whatever a life calls after its crash fails.
func TestACrashIsTheEnd(t *testing.T) {
	w := newWorld(Config{Seed: 1})
	f := newFaults(w, 1)
	f.arm()
	done := 0
	for range 100 {
		_, err := call(context.Background(), f, "append", func() (int, error) { done++; return 0, nil })
		require.ErrorIs(t, err, errCrashed)
	}
	require.LessOrEqual(t, done, 1, "the call at which it crashed may have been done")
	require.EqualValues(t, 1, w.tally.crashes.Load())
}
