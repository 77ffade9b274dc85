package seldom_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/seldom"
)

func TestAWarningOfAKindIsSeldom(t *testing.T) {
	var said bytes.Buffer
	now := time.Unix(1e9, 0)
	w := seldom.New(slog.New(slog.NewTextHandler(&said, nil)), func() time.Time { return now })
	lines := func() int { return strings.Count(said.String(), "\n") }

	require.True(t, w.Warn("a", "a fails", "error", "once"))
	require.Contains(t, said.String(), "level=WARN")
	require.Contains(t, said.String(), "error=once")
	require.NotContains(t, said.String(), "left_out")
	for range 3 {
		require.False(t, w.Warn("a", "a fails"))
	}
	require.True(t, w.Warn("b", "b fails"), "another kind")
	require.Equal(t, 2, lines())

	now = now.Add(seldom.Every)
	require.True(t, w.Warn("a", "a fails", "error", "again"))
	require.Contains(t, said.String(), "error=again left_out=3")
	require.False(t, w.Warn("a", "a fails"))
	require.Equal(t, 3, lines())
}

func TestAnOutageIsToldAsItBeginsNowAndThenAndAsItEnds(t *testing.T) {
	var said bytes.Buffer
	now := time.Unix(1e9, 0)
	o := seldom.NewOutage(slog.New(slog.NewTextHandler(&said, nil)), func() time.Time { return now }, "it fails", "it works again")
	lines := func(part string) int { return strings.Count(said.String(), part) }

	o.Worked()
	require.Empty(t, said.String(), "it never failed")
	for range 3 {
		o.Failed("error", "cut")
	}
	require.Equal(t, 1, lines("it fails"))
	now = now.Add(seldom.Every)
	o.Failed("error", "cut")
	require.Equal(t, 2, lines("it fails"))
	require.Contains(t, said.String(), "error=cut left_out=2")
	o.Worked("job", "a")
	o.Worked("job", "a")
	require.Equal(t, 1, lines("it works again"))
	require.Contains(t, said.String(), "job=a away=10s")

	o.Failed()
	o.Worked()
	require.Equal(t, 2, lines("it fails"), "so shortly after the last")
	require.Equal(t, 1, lines("it works again"), "and what was not told to begin does not end")
}
