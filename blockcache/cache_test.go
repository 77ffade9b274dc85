package blockcache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a cache on a bucket that misbehaves as planned.
type rig struct {
	*Cache
	bucket *blob.Bucket
	faults *faultbucket.Faults
}

func newRig(t testing.TB, config Config, plan faultbucket.Plan) *rig {
	t.Helper()
	r := &rig{}
	r.bucket, r.faults = faultbucket.Wrap(memblob.OpenBucket(nil), plan)
	config.Bucket = r.bucket
	var err error
	r.Cache, err = New(config)
	require.NoError(t, err)
	t.Cleanup(func() {
		r.Close()
		require.NoError(t, r.bucket.Close())
	})
	return r
}

// store puts a segment into the bucket: for each stream, from 1 on, so many
// records of so many bytes.
func (r *rig) store(t testing.TB, sequence uint64, recordBytes int, records ...int) (Segment, []byte) {
	t.Helper()
	segment, object := encode(sequence, recordBytes, records...)
	require.NoError(t, r.bucket.Upload(t.Context(), segment.Key, strings.NewReader(string(object)),
		&blob.WriterOptions{ContentType: "application/octet-stream"}))
	return segment, object
}

func encode(sequence uint64, recordBytes int, records ...int) (Segment, []byte) {
	id := blobwal.Identity{Node: 1, Epoch: 2}
	var appends []*blobwal.Append
	ordinal := 0
	for i, n := range records {
		a := &blobwal.Append{Stream: stream.MakeID(0, uint64(i+1))}
		for range n {
			a.Records = append(a.Records, stream.Record{Body: body(sequence, ordinal, recordBytes)})
			ordinal++
		}
		appends = append(appends, a)
	}
	object := blobwal.Encode(id, sequence, appends).Object
	key := blobwal.Key(id.Cluster, id.Segment(sequence))
	return Segment{ID: id.Segment(sequence), Key: key, Size: uint64(len(object))}, object
}

// body is a body that tells whose it is.
func body(sequence uint64, ordinal, size int) []byte {
	b := make([]byte, size)
	copy(b, fmt.Sprintf("%d/%d ", sequence, ordinal))
	return b
}

// expectRecord reads a record and checks that it is the right one.
func (r *rig) expectRecord(t require.TestingT, segment Segment, ordinal uint32) *blobwal.Block {
	block, err := r.Block(context.Background(), segment, ordinal, ordinal+1)
	require.NoError(t, err)
	require.True(t, block.Has(ordinal))
	run := block.Run(ordinal, 1)
	require.True(t, strings.HasPrefix(string(run.Body(0)), fmt.Sprintf("%d/%d ", segment.ID.Sequence, ordinal)))
	return block
}

func (r *rig) gets() int { return r.faults.Count(faultbucket.Get) }

func TestRecentSegmentsComeFromTheTail(t *testing.T) {
	r := newRig(t, Config{}, nil)
	segment, object := encode(1, 100, 5, 2000, 3)
	r.Put(segment, object)
	for ordinal := range uint32(2008) {
		r.expectRecord(t, segment, ordinal)
	}
	assert.Zero(t, r.gets())
	assert.Equal(t, uint64(2008), r.Stats().TailHits)
	assert.Same(t, r.expectRecord(t, segment, 0), r.expectRecord(t, segment, 1), "decoded once")
}

func TestTheOldestLeavesTheTailFirst(t *testing.T) {
	_, one := encode(1, 1000, 100)
	r := newRig(t, Config{TailBytes: 4 * (len(one) + 2000)}, nil)
	for sequence := range uint64(50) {
		segment, object := encode(sequence+1, 1000, 100)
		r.Put(segment, object)
		r.Put(segment, object) // twice is once
		s := r.Stats()
		assert.LessOrEqual(t, s.TailBytes, r.config.TailBytes)
		assert.Equal(t, int(min(sequence+1, 4)), s.TailSegments)
		assert.NotNil(t, r.tail.get(segment.ID))
	}
	huge, object := encode(99, 1000, 1000)
	r.Put(huge, object)
	assert.Nil(t, r.tail.get(huge.ID), "larger than the ring")
	assert.Equal(t, 4, r.Stats().TailSegments, "and nothing left for it")
}

func TestASmallSegmentIsOneGet(t *testing.T) {
	r := newRig(t, Config{}, nil)
	segment, _ := r.store(t, 1, 100, 10, 20)
	for ordinal := range uint32(30) {
		r.expectRecord(t, segment, ordinal)
	}
	assert.Equal(t, 1, r.gets())
	s := r.Stats()
	assert.Equal(t, []uint64{1, 29}, []uint64{s.Misses, s.BlockHits})
}

func TestALargeSegmentIsOneGetForItsIndexAndOneForEachBlock(t *testing.T) {
	r := newRig(t, Config{}, nil)
	segment, _ := r.store(t, 1, 60_000, 30) // one a block
	for range 3 {
		for ordinal := range uint32(fewFetches - 1) {
			r.expectRecord(t, segment, 9*ordinal)
		}
	}
	assert.Equal(t, 1+fewFetches-1, r.gets())
	s := r.Stats()
	assert.Equal(t, []uint64{fewFetches - 1, 2 * (fewFetches - 1)}, []uint64{s.Misses, s.BlockHits})
}

func TestCallersShareAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, func(faultbucket.Op) faultbucket.Decision { return faultbucket.Decision{Delay: time.Second} })
		segment, _ := r.store(t, 1, 20_000, 30)
		var wait sync.WaitGroup
		for range 50 {
			wait.Go(func() { r.expectRecord(t, segment, 7) })
		}
		wait.Wait()
		assert.Equal(t, 2, r.gets(), "the index and the block")
		assert.Equal(t, uint64(2), r.Stats().Fetches)
	})
}

func TestAFetchOutlivesTheCallerThatBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, func(op faultbucket.Op) (d faultbucket.Decision) {
			if op.Kind == faultbucket.Get {
				d.Delay = time.Second
			}
			return d
		})
		segment, _ := r.store(t, 1, 100, 10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := r.Block(ctx, segment, 0, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		r.expectRecord(t, segment, 0)
		assert.Equal(t, 1, r.gets())
	})
}

func TestFetchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		r := newRig(t, Config{Fetches: 3}, func(op faultbucket.Op) (d faultbucket.Decision) {
			if op.Kind == faultbucket.Get {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
			}
			return d
		})
		var wait sync.WaitGroup
		for sequence := range uint64(12) {
			segment, _ := r.store(t, sequence+1, 100, 10)
			wait.Go(func() { r.expectRecord(t, segment, 0) })
		}
		wait.Wait()
		assert.Equal(t, 3, most)
	})
}

func TestErrorsThatPassAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, func(op faultbucket.Op) (d faultbucket.Decision) {
			if op.Kind == faultbucket.Get && op.Nth < 3 {
				d.Before = faultbucket.Fail(op)
			}
			return d
		})
		segment, _ := r.store(t, 1, 100, 10)
		r.expectRecord(t, segment, 0)
		assert.Equal(t, uint64(3), r.Stats().Failures)
		assert.Zero(t, r.Stats().GaveUp)
	})
}

func TestABucketOutOfReachIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Tries: 3}, func(op faultbucket.Op) (d faultbucket.Decision) {
			if op.Kind == faultbucket.Get {
				d.Before = faultbucket.Fail(op)
			}
			return d
		})
		segment, _ := r.store(t, 1, 20_000, 30)
		_, err := r.Block(t.Context(), segment, 0, 1)
		var refusal *stream.Error
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, stream.CodeUnavailable, refusal.Code)
		assert.Positive(t, refusal.RetryAfter)
		assert.Contains(t, refusal.Message, segment.Key)
		assert.Equal(t, 3, r.gets())
		assert.Equal(t, uint64(1), r.Stats().GaveUp)

		r.faults.SetPlan(nil)
		r.expectRecord(t, segment, 0)
	})
}

func TestAMissingObjectIsNamed(t *testing.T) {
	r := newRig(t, Config{}, nil)
	for _, records := range []int{1, 30} {
		segment, _ := encode(1, 20_000, records)
		expectFault(t, r, segment, 0, blobwal.FaultMissing)
	}
	assert.Equal(t, 2, r.gets(), "and not asked for again")
	assert.Equal(t, uint64(2), r.Stats().Missing)
}

func expectFault(t *testing.T, r *rig, segment Segment, ordinal uint32, want blobwal.Fault) {
	t.Helper()
	_, err := r.Block(t.Context(), segment, ordinal, ordinal+1)
	var fault *blobwal.ObjectError
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, want, fault.Fault)
	assert.Equal(t, segment.Key, fault.Key)
	assert.Equal(t, stream.CodeInternal, stream.CodeOf(err))
	assert.Contains(t, err.Error(), segment.Key)
}

func TestASpoiledBlockIsNamedAndItsNeighboursServe(t *testing.T) {
	for _, recordBytes := range []int{1_000, 20_000} { // a small object, a large one
		r := newRig(t, Config{}, nil)
		segment, object := r.store(t, 1, recordBytes, 10, 10)
		index, err := blobwal.ParseObject(object)
		require.NoError(t, err)
		bad := index.Blocks[len(index.Blocks)-1]
		r.faults.SetPlan(flipping(int64(bad.Position + uint64(bad.Length)/2)))

		r.expectRecord(t, segment, 0)
		r.expectRecord(t, segment, bad.First-1)
		expectFault(t, r, segment, bad.First, blobwal.FaultChecksum)
		assert.Equal(t, uint64(1), r.Stats().Corrupt)
	}
}

// flipping spoils the byte at one position of every object.
func flipping(at int64) faultbucket.Plan {
	return func(faultbucket.Op) faultbucket.Decision {
		return faultbucket.Decision{Flip: func(position int64, p []byte) {
			if at >= position && at < position+int64(len(p)) {
				p[at-position] ^= 1
			}
		}}
	}
}

func TestAShortenedObjectIsNamed(t *testing.T) {
	for _, records := range []int{1, 30} {
		r := newRig(t, Config{}, nil)
		segment, _ := r.store(t, 1, 20_000, records)
		r.faults.SetPlan(func(faultbucket.Op) faultbucket.Decision { return faultbucket.Decision{Cut: 5_000} })
		expectFault(t, r, segment, 0, blobwal.FaultTruncated)
	}
}

func TestAnOrdinalThatTheSegmentDoesNotHave(t *testing.T) {
	r := newRig(t, Config{}, nil)
	small, _ := r.store(t, 1, 10, 10)
	large, _ := r.store(t, 2, 20_000, 30)
	recent, object := encode(3, 10, 10)
	r.Put(recent, object)
	expectFault(t, r, small, 10, blobwal.FaultFormat)
	expectFault(t, r, large, 30, blobwal.FaultFormat)
	expectFault(t, r, recent, 10, blobwal.FaultFormat)
}

func TestTheKeyFollowsFromTheID(t *testing.T) {
	r := newRig(t, Config{Cluster: [16]byte{1: 7}}, nil)
	id := blobwal.Identity{Cluster: [16]byte{1: 7}, Node: 1, Epoch: 2}
	object := blobwal.Encode(id, 1, []*blobwal.Append{{Stream: 1, Records: []stream.Record{{Body: body(1, 0, 10)}}}}).Object
	segment := Segment{ID: id.Segment(1), Size: uint64(len(object))}
	_, err := r.Block(t.Context(), segment, 0, 1)
	require.ErrorContains(t, err, blobwal.Key(id.Cluster, segment.ID))
	require.NoError(t, r.bucket.WriteAll(t.Context(), blobwal.Key(id.Cluster, segment.ID), object, nil))
	r.expectRecord(t, segment, 0)
}

func TestManyReadersAtOnce(t *testing.T) {
	r := newRig(t, Config{BlockBytes: 2 << 20, TailBytes: 1 << 20},
		faultbucket.Random{Seed: 3, GetBefore: 0.05}.Plan())
	var segments []Segment
	for sequence := range uint64(12) {
		segment, object := r.store(t, sequence+1, 5_000, 20, 40)
		segments = append(segments, segment)
		r.Put(segment, object)
	}
	var wait sync.WaitGroup
	for reader := range 16 {
		wait.Go(func() {
			for i := range 200 {
				segment := segments[(reader*7+i*i)%len(segments)]
				r.expectRecord(t, segment, uint32((reader*31+i)%60))
			}
		})
	}
	wait.Wait()
}

func TestConfigIsChecked(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	defer func() { require.NoError(t, bucket.Close()) }()
	for _, config := range []Config{{}, {Bucket: bucket, TailBytes: -1}, {Bucket: bucket, Tries: -1}} {
		_, err := New(config)
		require.Error(t, err)
	}
}
