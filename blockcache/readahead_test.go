package blockcache

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/internal/faultbucket"
)

// streams is a segment of so many streams with one record of 10,000 bytes each.
func (r *rig) streams(t testing.TB, sequence uint64, n int) Segment {
	t.Helper()
	counts := make([]int, n)
	for i := range counts {
		counts[i] = 1
	}
	segment, _ := r.store(t, sequence, 10_000, counts...)
	return segment
}

func TestASegmentThatIsReadAllOverIsFetchedInGrowingPieces(t *testing.T) {
	const blocks = 1000
	forwards, nearly, backwards, anyhow := make([]int, blocks), make([]int, blocks), make([]int, blocks), rand.New(rand.NewPCG(1, 2)).Perm(blocks)
	for i := range blocks {
		forwards[i], nearly[i], backwards[i] = i, i^7, blocks-1-i
	}
	for name, order := range map[string][]int{"forwards": forwards, "nearly": nearly, "backwards": backwards, "in any order": anyhow} {
		r := newRig(t, Config{}, nil)
		segment := r.streams(t, 1, blocks)
		for _, ordinal := range order {
			r.expectRecord(t, segment, uint32(ordinal))
		}
		most := 60
		if name == "in any order" {
			most = 150 // there are gaps between what was fetched
		}
		assert.LessOrEqual(t, r.gets(), most, "%s: gets for %d blocks", name, blocks)
		index, err := r.Index(t.Context(), segment)
		require.NoError(t, err)
		last := index.Blocks[blocks-1]
		assert.Equal(t, last.Position+uint64(last.Length)-index.Blocks[0].Position, r.Stats().FetchedBytes, "%s: nothing twice", name)
	}
}

func TestFewReadsOfASegmentFetchNoNeighbours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, nil)
		segment := r.streams(t, 1, 1000)
		for i := range uint32(20) {
			r.expectRecord(t, segment, 31*i)
			if i%3 == 2 {
				time.Sleep(hotFor + time.Second)
			}
		}
		assert.Equal(t, 1+20, r.gets())
	})
}

func TestWhatIsReadAheadIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, func(op faultbucket.Op) faultbucket.Decision { return faultbucket.Decision{Delay: time.Second} })
		large, _ := r.store(t, 1, 60_000, 40)
		small, _ := r.store(t, 2, 100, 40)
		began := time.Now()
		assert.Equal(t, IndexFirst, r.Ahead(large, 0, 40))
		assert.Equal(t, Underway, r.Ahead(small, 0, 40))
		for ordinal := range uint32(40) {
			r.expectRecord(t, small, ordinal)
		}
		assert.Equal(t, time.Second, time.Since(began))
		for ordinal := range uint32(40) {
			r.expectRecord(t, large, ordinal)
		}
		assert.Equal(t, 2*time.Second, time.Since(began), "the index, then all at once")
		assert.Equal(t, 1+3+1, r.gets(), "the index, 2.4 MB in pieces of a MiB, and the small one")
		assert.Zero(t, r.Stats().AheadBytes, "all of it was asked for")
		assert.Equal(t, Underway, r.Ahead(large, 0, 40))
		synctest.Wait()
		assert.Equal(t, 5, r.gets(), "it is in memory")
	})
}

func TestReadAheadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{BlockBytes: 4 << 20}, nil)
		first, _ := r.store(t, 1, 60_000, 16)
		second, _ := r.store(t, 2, 60_000, 16)
		for _, segment := range []Segment{first, second} {
			_, err := r.Index(t.Context(), segment)
			require.NoError(t, err)
		}
		assert.Equal(t, Underway, r.Ahead(first, 0, 16))
		synctest.Wait()
		assert.Equal(t, 1+1+1, r.gets())
		assert.Equal(t, NoRoom, r.Ahead(second, 0, 16), "there is no room")
		for ordinal := range uint32(8) {
			r.expectRecord(t, second, 2*ordinal)
		}
		gets := r.gets()
		for ordinal := range uint32(16) {
			r.expectRecord(t, first, ordinal)
		}
		assert.Equal(t, gets, r.gets(), "other reads do not push out what waits for its reader")
		assert.Equal(t, Underway, r.Ahead(second, 0, 16), "once it is read there is room")
		synctest.Wait()
		third, _ := r.store(t, 3, 60_000, 16)
		_, err := r.Index(t.Context(), third)
		require.NoError(t, err)
		assert.Equal(t, NoRoom, r.Ahead(third, 0, 16))
		time.Sleep(aheadStays)
		assert.Equal(t, Underway, r.Ahead(third, 0, 16), "nobody came for the other")
		synctest.Wait()
		assert.LessOrEqual(t, r.Stats().AheadBytes, r.AheadMost())
	})
}

// TestWhatWeighsMoreThanItsBytesPushesNothingOut: none of what there was room for is
// fetched again.
func TestWhatWeighsMoreThanItsBytesPushesNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{BlockBytes: 1 << 20, Fetches: 1000}, func(faultbucket.Op) faultbucket.Decision { return faultbucket.Decision{Delay: time.Second} })
		segments := make([]Segment, 200)
		for i := range segments {
			segments[i], _ = r.store(t, uint64(i+1), 20, 200)
		}
		var waiting []Segment
		for _, segment := range segments {
			if r.Ahead(segment, 0, 200) == Underway {
				waiting = append(waiting, segment)
			}
		}
		require.Less(t, len(waiting), len(segments))
		time.Sleep(2 * time.Second)
		require.Greater(t, r.Stats().AheadBytes, r.AheadMost(), "decoded")
		for _, segment := range waiting {
			r.expectRecord(t, segment, 0)
		}
		assert.Equal(t, len(waiting), r.gets())
		assert.Zero(t, r.Stats().AheadBytes)
	})
}

func TestReadAheadLeavesTurnsToReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Fetches: 4}, func(op faultbucket.Op) faultbucket.Decision { return faultbucket.Decision{Delay: time.Second} })
		var segments []Segment
		for sequence := range uint64(5) {
			segment, _ := r.store(t, sequence+1, 100, 10)
			segments = append(segments, segment)
		}
		wanted, _ := r.store(t, 9, 100, 10)
		took := 0
		for _, segment := range segments {
			if r.Ahead(segment, 0, 10) == Underway {
				took++
			}
		}
		assert.Equal(t, 3, took)
		began := time.Now()
		r.expectRecord(t, wanted, 0)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

// TestASpoiledBlockThatWasReadAhead is told to whoever asks for it, and to nobody
// else.
func TestASpoiledBlockThatWasReadAhead(t *testing.T) {
	r := newRig(t, Config{}, nil)
	segment, object := r.store(t, 1, 20_000, 30) // three a block
	index, err := blobwal.ParseObject(object)
	require.NoError(t, err)
	for _, number := range []int{0, 4} {
		bad := index.Blocks[number]
		r.faults.SetPlan(flipping(int64(bad.Position + 100)))
		require.NotEqual(t, NoRoom, r.Ahead(segment, 0, 30))
		for _, info := range index.Blocks {
			if info.Number == bad.Number {
				expectFault(t, r, segment, info.First, blobwal.FaultChecksum)
			} else {
				r.expectRecord(t, segment, info.First)
			}
		}
		r.Evict(segment.ID)
	}
	assert.Equal(t, uint64(2), r.Stats().Corrupt)
}

func TestAheadOfWhatTheSegmentDoesNotHave(t *testing.T) {
	r := newRig(t, Config{}, nil)
	segment, _ := r.store(t, 1, 20_000, 30)
	assert.Equal(t, Underway, r.Ahead(segment, 3, 3))
	r.expectRecord(t, segment, 0)
	gets := r.gets()
	assert.Equal(t, Underway, r.Ahead(segment, 20, 40))
	assert.Equal(t, gets, r.gets())
	expectFault(t, r, segment, 30, blobwal.FaultFormat)
}
