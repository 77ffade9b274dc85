package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

// TestRetentionIsPartOfTheConfiguration as far as a create states it, also after
// a restart.
func TestRetentionIsPartOfTheConfiguration(t *testing.T) {
	w := newWorld(t)
	n := w.start(nil)
	keep := stream.Retention{Age: 60, Bytes: 1000}
	create := func(name stream.Name, r stream.Retention, f *stream.ForkRequest) (stream.Created, error) {
		return n.Create(t.Context(), name, &stream.CreateRequest{Config: stream.Config{Retention: r}, Fork: f})
	}
	made, err := create("a", keep, nil)
	require.NoError(t, err)
	require.True(t, made.New)
	require.Equal(t, keep, made.Config.Retention)
	_, err = create("none", stream.Retention{}, nil)
	require.NoError(t, err)
	made, err = create("fork", stream.Retention{Age: 30}, &stream.ForkRequest{From: "a"})
	require.NoError(t, err)
	require.Equal(t, stream.Retention{Age: 30, Bytes: 1000}, made.Config.Retention, "a bound that is left out is inherited")

	for range 2 {
		for _, same := range []stream.Retention{{}, keep, {Age: 60}, {Bytes: 1000}} {
			again, err := create("a", same, nil)
			require.NoError(t, err)
			require.False(t, again.New)
			require.Equal(t, keep, again.Config.Retention)
		}
		for _, other := range []stream.Retention{{Age: 61}, {Bytes: 1}, {Age: 60, Bytes: 1}} {
			_, err := create("a", other, nil)
			require.Equal(t, stream.CodeConflict, codeOf(t, err))
		}
		_, err = create("none", stream.Retention{Age: 60}, nil)
		require.Equal(t, stream.CodeConflict, codeOf(t, err))
		_, err = create("fork", stream.Retention{}, &stream.ForkRequest{From: "a"})
		require.NoError(t, err)
		_, err = create("fork", stream.Retention{Age: 60}, &stream.ForkRequest{From: "a"})
		require.Equal(t, stream.CodeConflict, codeOf(t, err))
		n.stop()
		n = w.start(nil)
	}
	for _, bad := range []stream.Retention{{Age: stream.MaxTTL + 1}, {Bytes: stream.MaxRetentionBytes + 1}} {
		_, err := create("b", bad, nil)
		require.Equal(t, stream.CodeBadRequest, codeOf(t, err))
	}
}
