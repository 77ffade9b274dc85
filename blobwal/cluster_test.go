package blobwal

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/picomq/picomq/internal/faultbucket"
)

func memBucket(t testing.TB, plan faultbucket.Plan) (*blob.Bucket, *faultbucket.Faults) {
	t.Helper()
	bucket, faults := faultbucket.Wrap(memblob.OpenBucket(nil), plan)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	return bucket, faults
}

func TestTheIdentityIsMadeOnce(t *testing.T) {
	bucket, _ := memBucket(t, nil)
	var mu sync.Mutex
	seen := make(map[[16]byte]bool)
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			id, err := EnsureIdentity(t.Context(), bucket, nil)
			assert.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			seen[id] = true
		})
	}
	wait.Wait()
	require.Len(t, seen, 1, "all processes agree")
	for id := range seen {
		require.NotZero(t, id)
		got, err := EnsureIdentity(t.Context(), bucket, &id)
		require.NoError(t, err)
		assert.Equal(t, id, got)
	}
}

func TestTheIdentityOfWhoeverWasFirst(t *testing.T) {
	theirs := [16]byte{1, 2, 3}
	inner := memblob.OpenBucket(nil)
	bucket, _ := faultbucket.Wrap(inner, func(op faultbucket.Op) (d faultbucket.Decision) {
		if op.Kind == faultbucket.Put { // between our look and our put
			overwrite(t, inner, IdentityKey, identityBody(theirs))
		}
		return d
	})
	defer func() { require.NoError(t, bucket.Close()) }()
	got, err := EnsureIdentity(t.Context(), bucket, nil)
	require.NoError(t, err)
	assert.Equal(t, theirs, got)
}

func TestALostAnswerToTheFirstIdentity(t *testing.T) {
	bucket, faults := memBucket(t, func(op faultbucket.Op) (d faultbucket.Decision) {
		if op.Kind == faultbucket.Put {
			d.After = faultbucket.Lose(op)
		}
		return d
	})
	_, err := EnsureIdentity(t.Context(), bucket, nil)
	require.Error(t, err)
	faults.SetPlan(nil)
	first, err := EnsureIdentity(t.Context(), bucket, nil)
	require.NoError(t, err)
	second, err := EnsureIdentity(t.Context(), bucket, nil)
	require.NoError(t, err)
	assert.Equal(t, first, second)
}

func TestAnotherClustersBucketIsRefused(t *testing.T) {
	bucket, _ := memBucket(t, nil)
	ours := [16]byte{1}
	var mismatch *IdentityError
	_, err := EnsureIdentity(t.Context(), bucket, &ours)
	require.ErrorAs(t, err, &mismatch)
	assert.True(t, mismatch.Missing, "a log with a cluster has used its bucket before")
	assert.Contains(t, err.Error(), IdentityKey)

	theirs, err := EnsureIdentity(t.Context(), bucket, nil)
	require.NoError(t, err)
	_, err = EnsureIdentity(t.Context(), bucket, &ours)
	require.ErrorAs(t, err, &mismatch)
	assert.Equal(t, IdentityError{Want: ours, Found: theirs}, *mismatch)
}

func TestASpoiledIdentityIsRefused(t *testing.T) {
	for _, body := range []string{"", "picomq cluster 1 00", "something else", "picomq cluster 2 000102030405060708090a0b0c0d0e0f"} {
		bucket, _ := memBucket(t, nil)
		overwrite(t, bucket, IdentityKey, []byte(body))
		_, err := EnsureIdentity(t.Context(), bucket, nil)
		requireObjectError(t, err, "%q", body)
		require.Contains(t, err.Error(), IdentityKey)
	}
}

func TestAMarkerHasOneIncarnation(t *testing.T) {
	bucket, _ := memBucket(t, nil)
	first, second := someone(), someone()
	second.Incarnation[0]++
	require.NoError(t, WriteMarker(t.Context(), bucket, first))
	require.NoError(t, WriteMarker(t.Context(), bucket, first), "claimed again by the same")
	var taken *MarkerError
	require.ErrorAs(t, WriteMarker(t.Context(), bucket, second), &taken)
	assert.Equal(t, MarkerKey(second.Cluster, second.Log, second.Node, second.Epoch), taken.Key)
	second.Epoch++
	require.NoError(t, WriteMarker(t.Context(), bucket, second))
}

func TestHasSegments(t *testing.T) {
	bucket, _ := memBucket(t, nil)
	id := someone()
	expect := func(want bool, log uint16) {
		t.Helper()
		got, err := HasSegments(t.Context(), bucket, id.Cluster, log)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	require.NoError(t, WriteMarker(t.Context(), bucket, id))
	expect(false, 0)
	overwrite(t, bucket, Key(id.Cluster, id.Segment(1)), bytes.Repeat([]byte("x"), 10))
	expect(true, 0)
	expect(false, 1)
}
