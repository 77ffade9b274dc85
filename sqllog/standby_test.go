package sqllog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// With synchronous standbys a commit stands when one of them has it. Whoever
// gives up waiting must not bring the server to do so, too: the row would be seen,
// and acknowledged, while a standby that is promoted next lacks it.
func TestPostgresNobodyCutsTheWaitForAStandbyShort(t *testing.T) {
	server := sqllogtest.StartServer(t)
	l, err := sqllog.Open(t.Context(), server.URL, sqllog.Options{Timeout: 2 * sqllog.ServerTimeout})
	require.NoError(t, err)
	other, err := sqllog.Open(t.Context(), server.URL, sqllog.Options{})
	require.NoError(t, err)
	_, err = l.Append(t.Context(), insert(1))
	require.NoError(t, err)
	admin := server.Admin(t)
	standbys := func(names string) {
		for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
			_, err := admin.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool {
			var value string
			return admin.QueryRowContext(t.Context(), "SHOW synchronous_standby_names").Scan(&value) == nil && value == names
		}, 30*time.Second, time.Millisecond)
	}

	standbys("away")
	_, err = l.Append(t.Context(), insert(2))
	require.ErrorIs(t, err, commands.ErrUnknown)
	_, err = other.Append(t.Context(), insert(3))
	require.ErrorIs(t, err, commands.ErrNotSent, "the row before still waits, and its lock with it")
	_, _, found, err := other.FindOrigin(t.Context(), insert(2).Origin, 0)
	require.NoError(t, err)
	assert.False(t, found)

	standbys("")
	require.Eventually(t, func() bool {
		_, _, found, err := other.FindOrigin(context.WithoutCancel(t.Context()), insert(2).Origin, 0)
		return err == nil && found
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, l.Close())
	require.NoError(t, other.Close())
}
