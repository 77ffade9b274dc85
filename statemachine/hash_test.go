package statemachine

import (
	"encoding/binary"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"
)

// TestHash compares the hash of words with that of their bytes.
func TestHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.Uint64(), 0, 20).Draw(t, "words")
		var data []byte
		for _, w := range words {
			data = binary.LittleEndian.AppendUint64(data, w)
		}
		if got, want := hash(words...), xxhash.Sum64(data); got != want {
			t.Fatalf("%016x, want %016x", got, want)
		}
	})
}

func BenchmarkHash(b *testing.B) {
	e, segment := makeExtent(1, 2, 3, 4, 5), Segment{Epoch: 1}
	b.Run("extent", func(b *testing.B) {
		for b.Loop() {
			hashExtent(7, e)
		}
	})
	b.Run("segment", func(b *testing.B) {
		for b.Loop() {
			hashSegment(7, &segment)
		}
	})
}
