package blockcache

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/faultbucket"
)

func TestIndexes(t *testing.T) {
	for _, size := range []int{100, 2000} { // an object that is fetched whole, and one that is not
		r := newRig(t, Config{Tries: 1}, nil)
		segment, object := r.store(t, 1, size, 60, 40)
		fetched, err := r.Index(t.Context(), segment)
		require.NoError(t, err)
		require.EqualValues(t, 100, fetched.Records)
		gets := r.faults.Count(faultbucket.Get)
		again, err := r.Index(t.Context(), segment)
		require.NoError(t, err)
		require.Equal(t, fetched, again)
		require.Equal(t, gets, r.faults.Count(faultbucket.Get), "it is kept")

		recent := newRig(t, Config{}, nil)
		recent.Put(segment, object)
		kept, err := recent.Index(t.Context(), segment)
		require.NoError(t, err)
		require.Equal(t, fetched, kept)
		require.Zero(t, recent.faults.Count(faultbucket.Get))

		object[len(object)-50] ^= 1
		spoiled := newRig(t, Config{}, nil)
		spoiled.Put(segment, object)
		_, err = spoiled.Index(t.Context(), segment)
		require.ErrorContains(t, err, segment.Key)
		segment.ID.Sequence, segment.Key = 9, ""
		_, err = r.Index(t.Context(), segment)
		require.Error(t, err, "there is no such object")
	}
}
