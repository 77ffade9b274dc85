package blockcache

import "testing"

// BenchmarkTailHit is a block of a recent segment.
func BenchmarkTailHit(b *testing.B) {
	r := newRig(b, Config{}, nil)
	segment, object := encode(1, 200, 100, 100, 100)
	r.Put(segment, object)
	benchmarkHits(b, r, segment)
}

// BenchmarkBlockHit is a block of a large segment, fetched before.
func BenchmarkBlockHit(b *testing.B) {
	r := newRig(b, Config{}, nil)
	segment, _ := r.store(b, 1, 2_000, 100, 100, 100)
	benchmarkHits(b, r, segment)
}

// BenchmarkSmallHit is a block of a small segment, fetched before.
func BenchmarkSmallHit(b *testing.B) {
	r := newRig(b, Config{}, nil)
	segment, _ := r.store(b, 1, 200, 100, 100, 100)
	benchmarkHits(b, r, segment)
}

func benchmarkHits(b *testing.B, r *rig, segment Segment) {
	for ordinal := range uint32(300) {
		r.expectRecord(b, segment, ordinal)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for ordinal := uint32(0); pb.Next(); ordinal = (ordinal + 1) % 300 {
			if _, err := r.Block(b.Context(), segment, ordinal, ordinal+1); err != nil {
				b.Fatal(err)
			}
		}
	})
}
