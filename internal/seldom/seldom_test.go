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
