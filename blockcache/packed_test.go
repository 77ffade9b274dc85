package blockcache

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
)

// packed is a packed segment in the bucket: of each stream, from 1 on, so many
// records of so many bytes, from offset 1000 on, ten of each time.
func (r *rig) packed(t testing.TB, sequence uint64, recordBytes int, records ...int) (Segment, []byte) {
	t.Helper()
	id := blobwal.Identity{Node: 1, Epoch: 2}
	p, err := blobwal.NewPacker(id, sequence, 64<<20)
	require.NoError(t, err)
	ordinal := 0
	for i, n := range records {
		for j := range n {
			one := body(sequence, ordinal, recordBytes)
			_, err := p.Add(stream.MakeID(0, uint64(i+1)), stream.Run{
				First: stream.Offset(1000 + j), Time: stream.Time(j / 10), Bodies: one, Ends: []uint32{uint32(len(one))},
			})
			require.NoError(t, err)
			ordinal++
		}
	}
	out := p.Seal()
	segment := Segment{ID: out.ID, Key: blobwal.Key(id.Cluster, out.ID), Size: uint64(len(out.Object))}
	require.NoError(t, r.bucket.WriteAll(t.Context(), segment.Key, out.Object, nil))
	return segment, out.Object
}

func TestPackedSegmentsKeepTheirOffsetsAndTimes(t *testing.T) {
	for _, recordBytes := range []int{100, 20_000} { // a small object, a large one
		r := newRig(t, Config{}, nil)
		segment, _ := r.packed(t, 1, recordBytes, 35, 35)
		for ordinal := range uint32(70) {
			block := r.expectRecord(t, segment, ordinal)
			require.True(t, block.Packed())
			within := ordinal % 35
			run := block.Run(ordinal, 100)
			assert.Equal(t, stream.MakeID(0, uint64(ordinal/35+1)), block.Info.Stream)
			assert.Equal(t, stream.Offset(1000+within), run.First)
			assert.Equal(t, stream.Time(within/10), run.Time)
			assert.Equal(t, run.Time, block.TimeOf(ordinal))
			assert.LessOrEqual(t, run.Len(), int(10-within%10), "a run has one time")
		}
	}
}

func TestPackedSegmentsDoNotEnterTheTail(t *testing.T) {
	r := newRig(t, Config{}, nil)
	recent, object := encode(1, 100, 10)
	r.Put(recent, object)
	segment, object := r.packed(t, 2, 100, 10)
	r.Put(segment, object)
	assert.Equal(t, 1, r.Stats().TailSegments)
	r.expectRecord(t, segment, 3)
	assert.Equal(t, 1, r.gets())
}

// TestALargeIndexIsFetchedOnce reads a block here and there of a segment with as
// many blocks as there may be, through a cache that is small and full.
func TestALargeIndexIsFetchedOnce(t *testing.T) {
	r := newRig(t, Config{BlockBytes: 16 << 20}, nil)
	for sequence := range uint64(8) { // 19 MB, read twice
		segment, _ := r.store(t, sequence+10, 60_000, 40)
		for ordinal := range uint32(80) {
			r.expectRecord(t, segment, ordinal%40)
		}
	}
	records := make([]int, blobwal.MaxPackedBlocks-4)
	for i := range records {
		records[i] = 1
	}
	segment, _ := r.packed(t, 1, 100, records...)
	before := r.gets()
	for i := range uint32(500) {
		r.expectRecord(t, segment, i*100)
	}
	r.blocks.CleanUp()
	indexes := (r.gets() - before - 500) / 2
	assert.LessOrEqual(t, indexes, 5, "fetches of the index, for 500 blocks")
	assert.LessOrEqual(t, r.Stats().BlockBytes, 16<<20)
}

// TestASmallPackedSegmentWeighsWhatItHolds: the estimate that is made before a
// block is decoded is not exceeded by the blocks.
func TestASmallPackedSegmentWeighsWhatItHolds(t *testing.T) {
	r := newRig(t, Config{}, nil)
	for _, records := range [][]int{{1}, {400}, {20, 20, 20}} {
		_, object := r.packed(t, 1, 10, records...)
		object = bytes.Clone(object) // the packer's has room
		index, err := blobwal.ParseObject(object)
		require.NoError(t, err)
		held := len(object) + index.MemoryBytes()
		for _, info := range index.Blocks {
			b, err := blobwal.DecodeBlock(info, object[info.Position:][:info.Length])
			require.NoError(t, err)
			held += b.Size() - int(info.Length)
		}
		assert.GreaterOrEqual(t, blobwal.Footprint(object), held)
	}
}

func TestASpoiledPackedBlockIsNamed(t *testing.T) {
	for _, recordBytes := range []int{1_000, 20_000} {
		r := newRig(t, Config{}, nil)
		segment, object := r.packed(t, 1, recordBytes, 10, 10)
		index, err := blobwal.ParseObject(object)
		require.NoError(t, err)
		bad := index.Blocks[len(index.Blocks)-1]
		r.faults.SetPlan(flipping(int64(bad.Position + 20))) // its base
		r.expectRecord(t, segment, 0)
		expectFault(t, r, segment, bad.First, blobwal.FaultChecksum)
	}
}

func TestAMissingObjectIsToldApart(t *testing.T) {
	r := newRig(t, Config{}, nil)
	for _, recordBytes := range []int{100, 20_000} {
		segment, _ := r.packed(t, 1, recordBytes, 30)
		r.expectRecord(t, segment, 0)
		require.NoError(t, r.bucket.Delete(t.Context(), segment.Key))
		r.expectRecord(t, segment, 0)

		r.Evict(segment.ID)
		_, err := r.Block(t.Context(), segment, 0, 1)
		assert.True(t, blobwal.Missing(err))
		assert.True(t, blobwal.Missing(fmt.Errorf("read: %w", err)))
	}
	spoiled, _ := r.packed(t, 2, 100, 30)
	r.faults.SetPlan(func(faultbucket.Op) faultbucket.Decision { return faultbucket.Decision{Cut: 50} })
	_, err := r.Block(t.Context(), spoiled, 0, 1)
	require.Error(t, err)
	assert.False(t, blobwal.Missing(err))
	assert.False(t, blobwal.Missing(nil))
}

func TestEvictedSegmentsAreGoneAndOthersStay(t *testing.T) {
	r := newRig(t, Config{}, nil)
	var segments []Segment
	for sequence := range uint64(9) {
		var segment Segment
		switch sequence % 3 {
		case 0: // in the tail
			var object []byte
			segment, object = encode(sequence+1, 100, 10)
			r.Put(segment, object)
		case 1: // small
			segment, _ = r.store(t, sequence+1, 100, 10)
		default: // large
			segment, _ = r.packed(t, sequence+1, 60_000, 10)
		}
		segments = append(segments, segment)
		r.readAll(t, segment)
	}
	r.blocks.CleanUp()
	before, gets := r.Stats(), r.gets()
	r.Evict()
	r.Evict(segments[0].ID, segments[4].ID, segments[5].ID, blobwal.SegmentID{Node: 99})
	for i, segment := range segments {
		kept := i != 0 && i != 4 && i != 5
		assert.Equal(t, kept, r.holds(segment), "segment %d", i)
		if kept {
			r.readAll(t, segment)
		}
	}
	assert.Equal(t, gets, r.gets(), "the others are in memory")
	r.blocks.CleanUp()
	after := r.Stats()
	assert.Equal(t, before.TailSegments-1, after.TailSegments)
	assert.Less(t, after.TailBytes, before.TailBytes)
	assert.Equal(t, held(r), after.BlockBytes)
}

func TestTheRingGoesOnAfterAnEviction(t *testing.T) {
	_, one := encode(1, 1000, 100)
	r := newRig(t, Config{TailBytes: 4 * (len(one) + 2000)}, nil)
	for sequence := uint64(1); sequence <= 20; sequence++ {
		segment, object := encode(sequence, 1000, 100)
		r.Put(segment, object)
		middle := segment.ID
		middle.Sequence--
		if sequence%3 == 0 {
			r.Evict(middle)
			assert.Nil(t, r.tail.get(middle))
		}
		assert.True(t, r.holds(segment))
		assert.LessOrEqual(t, r.Stats().TailSegments, 4)
	}
	for sequence := uint64(15); sequence <= 20; sequence++ {
		r.Evict(blobwal.SegmentID{Node: 1, Epoch: 2, Sequence: sequence})
	}
	s := r.Stats()
	assert.Equal(t, []int{0, 0}, []int{s.TailSegments, s.TailBytes})
	assert.Empty(t, r.tail.order)
}

// readAll reads ten records all over a segment of test size.
func (r *rig) readAll(t *testing.T, segment Segment) {
	t.Helper()
	for ordinal := range uint32(10) {
		r.expectRecord(t, segment, ordinal)
	}
}

// holds tells whether anything of a segment is in memory.
func (r *rig) holds(segment Segment) bool {
	if r.tail.get(segment.ID) != nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, keys := range []iter.Seq[entryKey]{r.blocks.Keys(), maps.Keys(r.young.byKey), maps.Keys(r.ahead.byKey)} {
		for key := range keys {
			if key.id == segment.ID {
				return true
			}
		}
	}
	return false
}
