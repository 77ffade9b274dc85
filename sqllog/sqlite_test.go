package sqllog_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

func TestSQLite(t *testing.T) {
	sqllogtest.Run(t, func(t *testing.T) sqllogtest.Backend {
		path := filepath.Join(t.TempDir(), "log.db")
		l := openSQLite(t, path)
		return sqllogtest.Backend{Log: l, Rewind: func(t testing.TB, to commands.Index) { rewindSQLite(t, path, to) }}
	})
}

func openSQLite(t testing.TB, path string) *sqllog.Log {
	t.Helper()
	l, err := sqllog.Open(t.Context(), "sqlite://"+path, sqllog.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// rewindSQLite goes around the log and its lock, as a hand with a shell would.
func rewindSQLite(t testing.TB, path string, to commands.Index) {
	t.Helper()
	for _, statement := range []string{
		"DELETE FROM command_log WHERE idx > $1",
		"DELETE FROM origins WHERE idx > $1",
		"UPDATE log_head SET (idx, row_id, previous_row_id) = (SELECT idx, row_id, previous_row_id FROM command_log WHERE idx = $1)",
	} {
		execSQLite(t, path, statement, int64(to))
	}
}

func execSQLite(t testing.TB, path, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.ExecContext(t.Context(), statement, args...)
	require.NoError(t, err)
}
