package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/cli"
)

func TestAges(t *testing.T) {
	for text, want := range map[string]struct {
		seconds uint64
		text    string
	}{
		"0": {0, "0"}, "0d": {0, "0"}, "3600": {3600, "1h"}, "90s": {90, "90s"}, "36h": {129600, "36h"}, "1h30m": {5400, "90m"},
		"7d": {604800, "7d"}, "168h": {604800, "7d"}, "365d": {31536000, "365d"}, "1.5h": {5400, "90m"},
		"9007199254740": {9007199254740, "150119987579m"},
	} {
		var a cli.Age
		require.NoError(t, a.Set(text), text)
		require.EqualValues(t, want.seconds, a, text)
		require.Equal(t, want.text, a.String(), text)
		var again cli.Age
		require.NoError(t, again.Set(a.String()))
		require.Equal(t, a, again, text)
	}
	for text, why := range map[string]string{
		"": "want an age", "d": "want an age", "-1": "want an age", "-1h": "want an age", "1.5s": "want an age", "500ms": "want an age",
		"1w": "want an age", "7 d": "want an age", "1.5d": "want an age", "99999999999999999999": "want an age",
		"9007199254741": "at most 9007199254740 seconds", "4294967295d": "at most", "18446744073709551615d": "at most",
	} {
		a := cli.Age(5)
		require.ErrorContains(t, a.Set(text), why, text)
		require.EqualValues(t, 5, a, text)
	}
}
