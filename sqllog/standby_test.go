package sqllog_test

import (
	"context"
	"database/sql"
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
	standbys := func(names string) { configure(t, admin, "synchronous_standby_names", names) }

	standbys("away")
	waiting := uint64(1)
	for err == nil { // until the server's processes have all heard of it
		waiting++
		_, err = l.Append(t.Context(), insert(waiting))
	}
	require.ErrorIs(t, err, commands.ErrUnknown)
	_, err = other.Append(t.Context(), insert(waiting+1))
	require.ErrorIs(t, err, commands.ErrNotSent, "the row before still waits, and its lock with it")
	_, _, found, err := other.FindOrigin(t.Context(), insert(waiting).Origin, 0)
	require.NoError(t, err)
	assert.False(t, found)

	standbys("")
	require.Eventually(t, func() bool {
		_, _, found, err := other.FindOrigin(context.WithoutCancel(t.Context()), insert(waiting).Origin, 0)
		return err == nil && found
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, l.Close())
	require.NoError(t, other.Close())
}

// What a server is told after a node started makes no acknowledgement worth less.
func TestPostgresAppendsAreDurableWhateverItIsToldLater(t *testing.T) {
	server := sqllogtest.StartServer(t)
	l, err := sqllog.Open(t.Context(), server.URL, sqllog.Options{})
	require.NoError(t, err)
	admin := server.Admin(t)
	configure(t, admin, "wal_writer_delay", "10s")
	configure(t, admin, "synchronous_commit", "off")
	for seq := range uint64(10) {
		_, err = l.Append(t.Context(), insert(seq+1))
		require.NoError(t, err)
	}
	server.Stop("immediate")
	server.Start()
	var rows int
	require.NoError(t, server.Admin(t).QueryRowContext(t.Context(), "SELECT count(*) FROM command_log").Scan(&rows))
	assert.Equal(t, 10, rows)
	require.NoError(t, l.Close())
}

// configure changes a setting of a running server.
func configure(t *testing.T, admin *sql.DB, setting, value string) {
	t.Helper()
	for _, statement := range []string{"ALTER SYSTEM SET " + setting + " = '" + value + "'", "SELECT pg_reload_conf()"} {
		_, err := admin.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		var got string
		return admin.QueryRowContext(t.Context(), "SELECT current_setting($1)", setting).Scan(&got) == nil && got == value
	}, 30*time.Second, time.Millisecond)
}
