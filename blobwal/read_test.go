package blobwal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/faultbucket"
)

// manyBlocks is a segment with as many blocks, and its key.
func manyBlocks(n int) (object []byte, key string) {
	appends := make([]*Append, n)
	for i := range appends {
		appends[i] = to(uint64(i+1), fmt.Sprint("record ", i))
	}
	return Encode(someone(), 8, appends).Object, Key(someone().Cluster, someone().Segment(8))
}

func TestAnIndexIsOneGetUnlessItIsLarge(t *testing.T) {
	tests := []struct{ blocks, gets int }{{1, 1}, {3000, 1}, {3271, 1}, {3272, 2}, {10_000, 2}}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.blocks, " blocks"), func(t *testing.T) {
			bucket, faults := memBucket(t, nil)
			object, key := manyBlocks(test.blocks)
			overwrite(t, bucket, key, object)
			index, err := ReadIndex(t.Context(), bucket, key, uint64(len(object)))
			require.NoError(t, err)
			assert.Equal(t, test.gets, faults.Count(faultbucket.Get))
			want, err := ParseObject(object)
			require.NoError(t, err)
			assert.Equal(t, want, index)
		})
	}
}

func TestReadBlocksIsOneGet(t *testing.T) {
	bucket, faults := memBucket(t, nil)
	object, key := manyBlocks(20)
	overwrite(t, bucket, key, object)
	index, err := ReadIndex(t.Context(), bucket, key, uint64(len(object)))
	require.NoError(t, err)
	before := faults.Count(faultbucket.Get)
	blocks, err := ReadBlocks(t.Context(), bucket, key, index, 5, 15)
	require.NoError(t, err)
	require.Len(t, blocks, 10)
	for i, b := range blocks {
		assert.Equal(t, index.Blocks[5+i], b.Info)
		run := b.Run(b.First(), 1)
		assert.Equal(t, fmt.Sprint("record ", 5+i), string(run.Body(0)))
	}
	assert.Equal(t, 1, faults.Count(faultbucket.Get)-before)
	none, err := ReadBlocks(t.Context(), bucket, key, index, 3, 3)
	require.NoError(t, err)
	assert.Empty(t, none)
}

func TestAMissingObjectIsNamed(t *testing.T) {
	bucket, _ := memBucket(t, nil)
	object, key := manyBlocks(3)
	size := uint64(len(object))
	index, err := ParseObject(object)
	require.NoError(t, err)
	for name, read := range map[string]func() error{
		"index":  func() error { _, err := ReadIndex(t.Context(), bucket, key, size); return err },
		"object": func() error { _, _, err := ReadObject(t.Context(), bucket, key, size); return err },
		"blocks": func() error { _, err := ReadBlocks(t.Context(), bucket, key, index, 0, 1); return err },
	} {
		var fault *ObjectError
		require.ErrorAs(t, read(), &fault, name)
		assert.Equal(t, FaultMissing, fault.Fault)
		assert.Equal(t, key, fault.Key)
	}
}

func TestAnErrorThatMayPassIsNotTheObjects(t *testing.T) {
	object, key := manyBlocks(3)
	for name, plan := range map[string]faultbucket.Plan{
		"refused": func(op faultbucket.Op) (d faultbucket.Decision) {
			if op.Kind == faultbucket.Get {
				d.Before = faultbucket.Fail(op)
			}
			return d
		},
		"everything refused": func(op faultbucket.Op) (d faultbucket.Decision) {
			d.Before = faultbucket.Fail(op)
			return d
		},
	} {
		bucket, faults := memBucket(t, nil)
		overwrite(t, bucket, key, object)
		faults.SetPlan(plan)
		_, err := ReadIndex(t.Context(), bucket, key, uint64(len(object)))
		require.Error(t, err, name)
		var fault *ObjectError
		assert.False(t, errors.As(err, &fault), name)
		assert.Contains(t, err.Error(), key)
	}
}

func TestARefusedRangeOfAShorterObjectIsTruncation(t *testing.T) {
	bucket, faults := memBucket(t, nil)
	object, key := manyBlocks(3)
	overwrite(t, bucket, key, object[:100])
	faults.SetPlan(func(op faultbucket.Op) (d faultbucket.Decision) {
		if op.Kind == faultbucket.Get { // as S3 and GCS answer a range beyond the end
			d.Before = faultbucket.Fail(op)
		}
		return d
	})
	_, err := ReadIndex(t.Context(), bucket, key, uint64(len(object)))
	var fault *ObjectError
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, FaultTruncated, fault.Fault)
}

func TestSizesThatCannotBeAreRefusedBeforeReading(t *testing.T) {
	bucket, faults := memBucket(t, nil)
	_, key := manyBlocks(1)
	for _, size := range []uint64{0, 1, minObjectBytes - 1, MaxObjectBytes + 1, 1 << 63} {
		_, err := ReadIndex(t.Context(), bucket, key, size)
		requireObjectError(t, err, "size %d", size)
		_, _, err = ReadObject(t.Context(), bucket, key, size)
		requireObjectError(t, err, "size %d", size)
	}
	assert.Zero(t, faults.Count(faultbucket.Get))
}

func TestAnotherSegmentUnderTheKeyIsRefused(t *testing.T) {
	bucket, _ := memBucket(t, nil)
	object, _ := manyBlocks(3)
	other := Key(someone().Cluster, someone().Segment(9))
	overwrite(t, bucket, other, object)
	for _, read := range []func() error{
		func() error { _, err := ReadIndex(t.Context(), bucket, other, uint64(len(object))); return err },
		func() error { _, _, err := ReadObject(t.Context(), bucket, other, uint64(len(object))); return err },
	} {
		var fault *ObjectError
		require.ErrorAs(t, read(), &fault)
		assert.Equal(t, FaultForeign, fault.Fault)
	}
}

func TestWithKey(t *testing.T) {
	original := faultf(FaultChecksum, "detail")
	keyed := WithKey("k", original)
	assert.Equal(t, "object k: checksum: detail", keyed.Error())
	assert.Empty(t, original.Key, "others may hold it")
	assert.Equal(t, keyed, WithKey("other", keyed), "the first key stays")
	plain := errors.New("plain")
	assert.Equal(t, plain, WithKey("k", plain))
	require.NoError(t, WithKey("k", nil))
}
