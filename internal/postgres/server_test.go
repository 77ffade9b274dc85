package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/postgres"
)

// TestAStandbyTakesOver with all that its primary acknowledged, while commits
// waited for it, and without what came after it was detached.
func TestAStandbyTakesOver(t *testing.T) {
	ctx := t.Context()
	primary, err := postgres.New(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, primary.Remove()) }()
	exec := func(on *postgres.Server, statement string) {
		t.Helper()
		_, err := on.Query(ctx, statement)
		require.NoError(t, err)
	}
	exec(primary, "CREATE TABLE t (x int)")
	standby, err := primary.Standby(ctx, "standby")
	require.NoError(t, err)
	defer func() { require.NoError(t, standby.Remove()) }()

	require.NoError(t, primary.Synchronize(ctx, standby))
	exec(primary, "INSERT INTO t VALUES (1)")
	require.NoError(t, primary.Configure(ctx, "synchronous_standby_names", ""))
	require.NoError(t, standby.Detach(ctx))
	exec(primary, "INSERT INTO t VALUES (2)")
	require.NoError(t, primary.Kill())
	require.NoError(t, standby.Promote(ctx))
	exec(standby, "INSERT INTO t VALUES (3)")

	require.NoError(t, primary.Start(ctx))
	for server, want := range map[*postgres.Server]string{primary: "1 2", standby: "1 3"} {
		got, err := server.Query(ctx, "SELECT string_agg(x::text, ' ' ORDER BY x) FROM t")
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// TestACopyIsRestored, and a server that cannot start says why.
func TestACopyIsRestored(t *testing.T) {
	ctx := t.Context()
	s, err := postgres.New(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Remove()) }()
	require.NoError(t, s.Stop())
	require.NoError(t, s.Copy(ctx, "empty"))
	require.NoError(t, s.Start(ctx))
	_, err = s.Query(ctx, "CREATE TABLE t (x int)")
	require.NoError(t, err)
	require.NoError(t, s.Crash())
	require.Error(t, s.Restore(ctx, "nothing"))
	require.ErrorContains(t, s.Start(ctx), "ended at its start")
	require.NoError(t, s.Restore(ctx, "empty"))
	require.NoError(t, s.Start(ctx))
	tables, err := s.Query(ctx, "SELECT count(*) FROM pg_tables WHERE tablename = 't'")
	require.NoError(t, err)
	assert.Equal(t, "0", tables)
}
