package blobwal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/internal/faultbucket"
)

func TestPrefixes(t *testing.T) {
	id := someone()
	const log = "000102030405060708090a0b0c0d0e0f/0000/wal/"
	assert.Equal(t, log, LogPrefix(id.Cluster, 0))
	assert.Equal(t, log+"00000007/", NodePrefix(id.Cluster, 0, 7))
	assert.Equal(t, log+"00000007/0000000000000412/", EpochPrefix(id.Cluster, 0, 7, 1042))
}

func TestAPrefixIsOfItsSegmentsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster := [16]byte{9}
		a, b := drawSegmentID(t), drawSegmentID(t)
		if rapid.Bool().Draw(t, "near") {
			b = a
			*rapid.SampledFrom([]*uint64{&b.Epoch, &b.Sequence}).Draw(t, "part") = rapid.Uint64().Draw(t, "number")
		}
		key := Key(cluster, b)
		require.Equal(t, a.Log == b.Log, strings.HasPrefix(key, LogPrefix(cluster, a.Log)))
		sameNode := a.Log == b.Log && a.Node == b.Node
		require.Equal(t, sameNode, strings.HasPrefix(key, NodePrefix(cluster, a.Log, a.Node)))
		require.Equal(t, sameNode && a.Epoch == b.Epoch, strings.HasPrefix(key, EpochPrefix(cluster, a.Log, a.Node, a.Epoch)))
	})
}

// FuzzParseKey: what is read back from a string is what its key is made of.
func FuzzParseKey(f *testing.F) {
	id := someone()
	f.Add(Key(id.Cluster, id.Segment(4711)))
	f.Add(Key([16]byte{}, SegmentID{Log: 1<<16 - 1, Node: 1<<32 - 1, Epoch: 1<<64 - 1, Sequence: 1<<64 - 1}))
	f.Add(MarkerKey(id.Cluster, 0, 7, 1))
	f.Add("////// .seg")
	f.Fuzz(func(t *testing.T, key string) {
		if cluster, id, err := ParseKey(key); err == nil {
			require.Equal(t, key, Key(cluster, id))
		}
	})
}

// putAll puts a small object under each key.
func putAll(t *testing.T, bucket *blob.Bucket, keys ...string) {
	t.Helper()
	for _, key := range keys {
		overwrite(t, bucket, key, []byte("object"))
	}
}

func TestSegmentsAreListedInTheOrderOfTheirKeys(t *testing.T) {
	bucket, faults := memBucket(t, nil)
	id := someone()
	var want []SegmentID
	for _, epoch := range []uint64{1, 2, 300} {
		for sequence := uint64(1); sequence < 10_000; sequence += 11 {
			s := SegmentID{Node: 7, Epoch: epoch, Sequence: sequence}
			want = append(want, s)
			putAll(t, bucket, Key(id.Cluster, s))
		}
	}
	putAll(t, bucket, IdentityKey, MarkerKey(id.Cluster, 0, 7, 1), Key(id.Cluster, SegmentID{Log: 1, Node: 7, Epoch: 1, Sequence: 1}))

	expectListed(t, bucket, LogPrefix(id.Cluster, 0), want)
	assert.Equal(t, 3, faults.Count(faultbucket.List), "1000 a page")
	expectListed(t, bucket, NodePrefix(id.Cluster, 0, 7), want)
	expectListed(t, bucket, NodePrefix(id.Cluster, 0, 8), nil)
	expectListed(t, bucket, EpochPrefix(id.Cluster, 0, 7, 2), want[len(want)/3:2*len(want)/3])
}

func expectListed(t *testing.T, bucket *blob.Bucket, prefix string, want []SegmentID) {
	t.Helper()
	var got []SegmentID
	for o, err := range ListSegments(t.Context(), bucket, prefix) {
		require.NoError(t, err)
		require.True(t, o.IsSegment)
		require.Equal(t, Key(someone().Cluster, o.Segment), o.Key)
		require.Equal(t, uint64(len("object")), o.Size)
		require.False(t, o.Modified.IsZero())
		got = append(got, o.Segment)
	}
	require.Equal(t, want, got)
}

func TestPagesAreBoundedAndGoOn(t *testing.T) {
	bucket, _ := memBucket(t, nil)
	id := someone()
	for sequence := range uint64(10) {
		putAll(t, bucket, Key(id.Cluster, id.Segment(sequence+1)))
	}
	var sizes []int
	next := uint64(1)
	for token := []byte(nil); ; {
		page, err := ListSegmentPage(t.Context(), bucket, LogPrefix(id.Cluster, 0), token, 4)
		require.NoError(t, err)
		sizes = append(sizes, len(page.Objects))
		for _, o := range page.Objects {
			assert.Equal(t, next, o.Segment.Sequence)
			next++
		}
		if token = page.Next; token == nil {
			break
		}
	}
	assert.Equal(t, []int{4, 4, 2}, sizes)
	for _, limit := range []int{-1, 0, maxPage + 1} {
		_, err := ListSegmentPage(t.Context(), bucket, "", nil, limit)
		require.Error(t, err)
	}
}

func TestWhatIsNoSegmentIsListedAsSuch(t *testing.T) {
	bucket, _ := memBucket(t, nil)
	prefix := LogPrefix(someone().Cluster, 0)
	putAll(t, bucket, prefix+"stray", prefix+"00000007/0000000000000001/0000000000000/0000000000000001.SEG")
	n := 0
	for o, err := range ListSegments(t.Context(), bucket, prefix) {
		require.NoError(t, err)
		assert.False(t, o.IsSegment, o.Key)
		assert.Zero(t, o.Segment)
		n++
	}
	assert.Equal(t, 2, n)
}

func TestAListingEndsWithAnError(t *testing.T) {
	id := someone()
	bucket, faults := memBucket(t, nil)
	for sequence := range uint64(maxPage + 1) {
		putAll(t, bucket, Key(id.Cluster, id.Segment(sequence+1)))
	}
	faults.SetPlan(func(op faultbucket.Op) (d faultbucket.Decision) {
		if op.Kind == faultbucket.List && op.Nth == 1 {
			d.Before = faultbucket.Fail(op)
		}
		return d
	})
	var results []string
	for o, err := range ListSegments(t.Context(), bucket, LogPrefix(id.Cluster, 0)) {
		if err != nil {
			results = append(results, "error")
			assert.ErrorContains(t, err, LogPrefix(id.Cluster, 0))
		} else if o.Segment.Sequence%500 == 0 {
			results = append(results, fmt.Sprint(o.Segment.Sequence))
		}
	}
	assert.Equal(t, []string{"500", "1000", "error"}, results)
	for _, err := range ListSegments(t.Context(), bucket, LogPrefix(id.Cluster, 0)) {
		assert.NoError(t, err)
		break // nothing is asked for after this
	}
}
