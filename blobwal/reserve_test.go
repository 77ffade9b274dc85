package blobwal

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
)

// packedFor is a packed segment under a sequence that was reserved from the rig.
func packedFor(t *testing.T, r *rig) *Packed {
	t.Helper()
	p, err := NewPacker(someone(), r.Reserve(), 1<<20)
	require.NoError(t, err)
	_, err = p.Add(stream.MakeID(0, 1), runOf(1, 0, 1, "a", "b").run)
	require.NoError(t, err)
	return p.Seal()
}

// failingPuts is a plan in which the first n puts fail.
func failingPuts(n int) faultbucket.Plan {
	return func(op faultbucket.Op) (d faultbucket.Decision) {
		if op.Kind == faultbucket.Put && op.Nth < n {
			d.Before = faultbucket.Fail(op)
		}
		return d
	}
}

func TestSequencesAreGivenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{}, slow(time.Second))
		var mu sync.Mutex
		reserved := make(map[uint64]bool)
		var wait sync.WaitGroup
		for dense := range uint64(50) {
			wait.Go(func() {
				n := r.Reserve()
				assert.NoError(t, r.Add(to(dense+1, "a")))
				mu.Lock()
				defer mu.Unlock()
				assert.False(t, reserved[n])
				reserved[n] = true
			})
		}
		wait.Wait()
		r.closeNow(t)
		for _, s := range r.delivered {
			require.NoError(t, s.Err)
			assert.False(t, reserved[s.ID.Sequence], "sequence %d was reserved", s.ID.Sequence)
		}
		assert.Len(t, reserved, 50)
	})
}

func TestAReservedSequenceDelaysNoSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{}, nil)
		r.Reserve()
		require.NoError(t, r.Add(to(1, "a")))
		synctest.Wait()
		require.Len(t, r.delivered, 1)
		assert.Equal(t, uint64(2), r.delivered[0].ID.Sequence)
		r.closeNow(t)
	})
}

func TestAPackedSegmentIsPutUntilItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{}, failingPuts(3))
		packed := packedFor(t, r)
		require.NoError(t, r.Put(t.Context(), packed.ID, packed.Object))
		got, _, err := ReadObject(t.Context(), r.bucket, Key(someone().Cluster, packed.ID), uint64(len(packed.Object)))
		require.NoError(t, err)
		assert.Equal(t, packed.Object, got)
		require.NoError(t, r.Put(t.Context(), packed.ID, packed.Object), "again is the same")
		s := r.Stats()
		assert.Equal(t, []uint64{2, 3, 3, 0}, []uint64{s.Puts, s.PutFailures, s.Retries, s.Segments})
		assert.Zero(t, s.MeanPut, "it says nothing about how long segments take")
		assert.Empty(t, r.delivered)
		r.closeNow(t)
	})
}

func TestALostAnswerToAPackedPutIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{}, func(op faultbucket.Op) (d faultbucket.Decision) {
			if op.Kind == faultbucket.Put && op.Nth == 0 {
				d.After = faultbucket.Fail(op)
			}
			return d
		})
		packed := packedFor(t, r)
		require.NoError(t, r.Put(t.Context(), packed.ID, packed.Object))
		r.closeNow(t)
	})
}

// TestALargeObjectHasMoreTime: timeouts are those of SegmentBytes.
func TestALargeObjectHasMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := WriterConfig{SegmentBytes: 1000, PutTimeout: time.Second, Deadline: 2 * time.Second}
		r := newRig(t, config, slow(3500*time.Millisecond))
		id := someone().Segment(r.Reserve())
		require.NoError(t, r.Put(t.Context(), id, make([]byte, 3001)))
		began := time.Now()
		err := r.Put(t.Context(), someone().Segment(r.Reserve()), make([]byte, 1000))
		assert.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
		assert.Equal(t, 2*time.Second, time.Since(began), "the deadline of one segment")
		r.closeNow(t)
	})
}

func TestAnotherObjectUnderAReservedKeyIsFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{}, nil)
		packed := packedFor(t, r)
		key := Key(someone().Cluster, packed.ID)
		overwrite(t, r.bucket, key, []byte("somebody else's"))
		expectForeign(t, r.Put(t.Context(), packed.ID, packed.Object), key)
		expectForeign(t, r.Put(t.Context(), packed.ID, packed.Object), key)
		expectForeign(t, r.Add(to(1, "no append is taken either")), key)
		r.closeNow(t)
	})
}

func TestOnlyReservedSequencesArePut(t *testing.T) {
	r := newRig(t, WriterConfig{}, nil)
	id := someone().Segment(r.Reserve())
	other := id
	other.Epoch++
	for _, wrong := range []SegmentID{someone().Segment(0), someone().Segment(2), other} {
		require.Error(t, r.Put(t.Context(), wrong, []byte("x")))
	}
	assert.Zero(t, r.faults.Count(faultbucket.Put))
	require.NoError(t, r.Put(t.Context(), id, []byte("x")))
	r.closeNow(t)
}

func TestCloseBreaksOffWhatIsPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{}, slow(5*time.Second))
		packed := packedFor(t, r)
		var wait sync.WaitGroup
		wait.Go(func() {
			err := r.Put(context.Background(), packed.ID, packed.Object)
			assert.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
		})
		synctest.Wait()
		r.closeNow(t)
		wait.Wait()
		assert.Zero(t, r.sinceStart())
		err := r.Put(t.Context(), packed.ID, packed.Object)
		assert.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
		_, err = r.bucket.ReadAll(t.Context(), Key(someone().Cluster, packed.ID))
		assert.Equal(t, gcerrors.NotFound, gcerrors.Code(err))
	})
}

func TestACallerMayBreakOffItsPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{}, slow(5*time.Second))
		packed := packedFor(t, r)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.Put(ctx, packed.ID, packed.Object)
		assert.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
		assert.Equal(t, time.Second, r.sinceStart())
		r.closeNow(t)
	})
}
