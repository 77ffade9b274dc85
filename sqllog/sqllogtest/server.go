package sqllogtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/postgres"
)

// StartServer starts a PostgreSQL of its own for a test, which may stop, start,
// and lose what it wrote, and removes it when the test ends. It fails the test
// when none is installed.
func StartServer(t testing.TB) *postgres.Server {
	t.Helper()
	s, err := postgres.New(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Remove()) })
	return s
}

// StartStandby starts a server that streams from another, and removes it as well.
func StartStandby(t testing.TB, of *postgres.Server, name string) *postgres.Server {
	t.Helper()
	s, err := of.Standby(t.Context(), name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Remove()) })
	return s
}
