package blobwal

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestKeys(t *testing.T) {
	id := someone()
	const cluster = "000102030405060708090a0b0c0d0e0f"
	assert.Equal(t, cluster+"/0000/wal/00000007/0000000000000412/0000000000001/0000000000001267.seg", Key(id.Cluster, id.Segment(4711)))
	assert.Equal(t, cluster+"/0000/marker/00000007/0000000000000412", MarkerKey(id.Cluster, 0, 7, 1042))
	assert.Equal(t, "0/7/1042/4711", id.Segment(4711).String())
}

func TestKeysOfSegmentsAreReadBackAndSortAsTheyCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSegmentID(t), drawSegmentID(t)
		cluster := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "cluster"))
		gotCluster, got, err := ParseKey(Key(cluster, a))
		require.NoError(t, err)
		require.Equal(t, cluster, gotCluster)
		require.Equal(t, a, got)
		require.Equal(t, a == b, Key(cluster, a) == Key(cluster, b))
		require.Equal(t, before(a, b), Key(cluster, a) < Key(cluster, b))
	})
}

func drawSegmentID(t *rapid.T) SegmentID {
	return SegmentID{
		Log:  rapid.Uint16().Draw(t, "log"),
		Node: rapid.Uint32().Draw(t, "node"), Epoch: rapid.Uint64().Draw(t, "epoch"), Sequence: rapid.Uint64().Draw(t, "sequence"),
	}
}

func before(a, b SegmentID) bool {
	switch {
	case a.Log != b.Log:
		return a.Log < b.Log
	case a.Node != b.Node:
		return a.Node < b.Node
	case a.Epoch != b.Epoch:
		return a.Epoch < b.Epoch
	default:
		return a.Sequence < b.Sequence
	}
}

func TestOtherKeysAreRefused(t *testing.T) {
	id := someone()
	good := Key(id.Cluster, id.Segment(4711))
	_, _, err := ParseKey(good)
	require.NoError(t, err)
	for _, key := range []string{
		"", "a/b", IdentityKey, MarkerKey(id.Cluster, 0, 7, 1),
		good[:len(good)-1], good + ".seg", "x" + good[1:], "/" + good, "A" + good[1:],
		good[:33] + "00000" + good[37:], // a log of five digits
		good[:len(good)-5] + "8.seg" + ".seg",
		good[:len(good)-22] + "2/" + good[len(good)-20:], // the wrong group
	} {
		_, _, err := ParseKey(key)
		assert.Error(t, err, key)
	}
}
