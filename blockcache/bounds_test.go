package blockcache

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheBlockCacheKeepsItsBound(t *testing.T) {
	const bound = 1 << 20
	r := newRig(t, Config{BlockBytes: bound, ReadAheadMax: 128 << 10}, nil)
	for sequence := range uint64(10) {
		small, _ := r.store(t, 2*sequence+1, 100, 50)
		large, _ := r.store(t, 2*sequence+2, 20_000, 30)
		r.expectRecord(t, small, 0)
		for ordinal := range uint32(30) {
			r.expectRecord(t, large, ordinal)
		}
	}
	r.blocks.CleanUp()
	s := r.Stats()
	assert.LessOrEqual(t, s.BlockBytes+s.AheadBytes, bound)
	assert.Greater(t, s.BlockBytes, bound/2)
	assert.Equal(t, held(r), s.BlockBytes, "the weights are what is held")
}

// held adds up what the block cache holds.
func held(r *rig) (bytes int) {
	for key, e := range r.blocks.All() {
		bytes += int(weigh(key, e))
	}
	for key, element := range r.young.byKey {
		bytes += int(weigh(key, element.Value.(*placed).entry))
	}
	return bytes
}

func TestWhatIsReadOftenStays(t *testing.T) {
	r := newRig(t, Config{BlockBytes: 4 << 20}, nil)
	hot, _ := r.store(t, 1, 20_000, 60) // 1.2 MB
	for ordinal := range uint32(60) {
		r.expectRecord(t, hot, ordinal)
		r.expectRecord(t, hot, ordinal)
	}
	for sequence := range uint64(20) { // a scan of 12 MB
		cold, _ := r.store(t, sequence+2, 20_000, 30)
		for ordinal := range uint32(30) {
			r.expectRecord(t, cold, ordinal)
			r.expectRecord(t, hot, (uint32(sequence)*30+ordinal)%60)
		}
	}
	before := r.Stats()
	for ordinal := range uint32(60) {
		r.expectRecord(t, hot, ordinal)
	}
	after := r.Stats()
	assert.GreaterOrEqual(t, after.BlockHits-before.BlockHits, uint64(50), "of 60")
}

// TestReadersThatLeaveFillNoMemory: what was fetched for those who say that they go
// on, and do not, is bounded however fast it comes.
func TestReadersThatLeaveFillNoMemory(t *testing.T) {
	r := newRig(t, Config{BlockBytes: 1 << 20, ReadAheadMax: 512 << 10}, nil)
	for sequence := range uint64(10) {
		segment, _ := r.store(t, sequence+1, 20_000, 30)
		_, err := r.Block(t.Context(), segment, 0, 30)
		require.NoError(t, err)
		require.LessOrEqual(t, r.Stats().AheadBytes, 2*r.AheadMost())
	}
}
