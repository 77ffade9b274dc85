package blobwal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/memblob"
)

// shape is a segment as they occur.
type shape struct {
	appends, streams int // the first spread over the second
	records, bytes   int // of an append; of a record
}

var shapes = []shape{
	{1000, 1000, 1, 100}, {1000, 10, 1, 100}, {1000, 10, 1, 4096}, {10_000, 2000, 1, 40}, {40, 40, 100, 1 << 10},
}

func (s shape) String() string {
	return fmt.Sprintf("appends=%d/streams=%d/records=%d/bytes=%d", s.appends, s.streams, s.records, s.bytes)
}

func (s shape) laidOut() []*Append {
	g := newGroup()
	bodies := slices.Repeat([]string{fill64(s.bytes)}, s.records)
	for i := range s.appends {
		a := to(uint64(i%s.streams)+1, bodies...)
		g.add(a, a.bytes(), time.Time{})
	}
	return g.ordered()
}

func BenchmarkEncode(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.String(), func(b *testing.B) {
			appends := s.laidOut()
			b.SetBytes(int64(len(Encode(someone(), 1, appends).Object)))
			b.ReportAllocs()
			for b.Loop() {
				Encode(someone(), 1, appends)
			}
			allocations := testing.AllocsPerRun(10, func() { Encode(someone(), 1, appends) })
			b.ReportMetric(allocations/float64(s.appends*s.records), "allocs/record")
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, s := range shapes {
		b.Run(s.String(), func(b *testing.B) {
			object := Encode(someone(), 1, s.laidOut()).Object
			b.SetBytes(int64(len(object)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Verify(object); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAdd is the append path alone: into a group, by stream.
func BenchmarkAdd(b *testing.B) {
	for _, streams := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			appends := make([]*Append, streams)
			for i := range appends {
				appends[i] = to(uint64(i+1), "one small record of some forty bytes or so")
			}
			g := newGroup()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if len(g.entries) == 10_000 {
					g.reset()
				}
				a := appends[i%streams]
				g.add(a, a.bytes(), time.Time{})
			}
		})
	}
}

// BenchmarkWriter is the whole writer over a bucket in memory: appends of 100
// bytes by 64 callers, each waiting for its own.
func BenchmarkWriter(b *testing.B) {
	bucket := memblob.OpenBucket(nil)
	defer func() { require.NoError(b, bucket.Close()) }()
	w, err := NewWriter(WriterConfig{
		Bucket: bucket, Identity: someone(), Interval: time.Millisecond,
		Sealed: func(s *Sealed) {
			defer s.Decided()
			for _, a := range s.Appends {
				a.Tag.(*sync.WaitGroup).Done()
			}
		},
	})
	require.NoError(b, err)
	body := fill64(100)
	var stream sync.Mutex
	next := uint64(0)
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		stream.Lock()
		next++
		dense := next
		stream.Unlock()
		for pb.Next() {
			var wait sync.WaitGroup
			wait.Add(1)
			a := to(dense, body)
			a.Tag = &wait
			if err := w.Add(a); err != nil {
				b.Error(err)
				return
			}
			wait.Wait()
		}
	})
	b.StopTimer()
	require.NoError(b, w.Close(context.Background()))
	s := w.Stats()
	b.ReportMetric(float64(s.Appends)/float64(max(s.Segments, 1)), "appends/segment")
}

// BenchmarkReadBlocks is what a get of about a MiB costs, cut into blocks.
func BenchmarkReadBlocks(b *testing.B) {
	bucket := memblob.OpenBucket(nil)
	defer func() { require.NoError(b, bucket.Close()) }()
	object := Encode(someone(), 1, []*Append{to(1, slices.Repeat([]string{fill64(1 << 10)}, 1000)...)}).Object
	key := Key(someone().Cluster, someone().Segment(1))
	require.NoError(b, bucket.WriteAll(b.Context(), key, object, nil))
	index, err := ParseObject(object)
	require.NoError(b, err)
	b.SetBytes(int64(len(object)))
	b.ReportAllocs()
	for b.Loop() {
		blocks, err := ReadBlocks(b.Context(), bucket, key, index, 0, len(index.Blocks))
		if err != nil || len(blocks) != len(index.Blocks) {
			b.Fatal(len(blocks), err)
		}
	}
}
