package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAges(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "3600": 3600, "90s": 90, "36h": 129600, "1h30m": 5400, "7d": 604800, "365d": 31536000,
	} {
		var a age
		require.NoError(t, a.Set(text), text)
		require.EqualValues(t, want, a, text)
		var again age
		require.NoError(t, again.Set(a.String()))
		require.Equal(t, a, again, text)
	}
	for _, text := range []string{"", "d", "-1", "-1h", "1.5s", "500ms", "1w", "7 d", "1.5d", "99999999999999999999", "4294967295d"} {
		a := age(5)
		require.ErrorContains(t, a.Set(text), text, text)
		require.EqualValues(t, 5, a, text)
	}
}
