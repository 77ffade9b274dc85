package sqllog_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
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
	l, err := sqllog.Open(t.Context(), "sqlite://"+path, sqllog.Options{Timeout: patience})
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
	require.NoError(t, tryExecSQLite(t, path, statement, args...))
}

func tryExecSQLite(t testing.TB, path, statement string, args ...any) error {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.ExecContext(t.Context(), statement, args...)
	return err
}

// countSQLite counts the rows of a table.
func countSQLite(t testing.TB, path, table string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func TestSQLiteReopens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "folders", "log.db")
	var last commands.Position
	for i := range 3 {
		l, err := sqllog.Open(t.Context(), "sqlite://"+path, sqllog.Options{Timeout: patience})
		require.NoError(t, err)
		head, err := l.Head(t.Context())
		require.NoError(t, err)
		require.Equal(t, last, head)
		at, err := l.Append(t.Context(), commands.Insert{
			Origin: commands.Origin{Node: 1, Epoch: 1, Seq: uint64(i + 1)}, Payload: []byte("p"), Applied: last,
		})
		require.NoError(t, err)
		last = at.Position
		require.NoError(t, l.Close())
	}
	require.EqualValues(t, 3, last.Index)
}

func TestSQLitePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"log.db", "./below/log.db", "with space/50%25 ü.db", filepath.Join(t.TempDir(), "absolute.db")} {
		l, err := sqllog.Open(t.Context(), "sqlite://"+name, sqllog.Options{Timeout: patience})
		require.NoError(t, err, name)
		require.NoError(t, l.Close())
		require.FileExists(t, name)
	}
}

func TestBadURLs(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, []byte("this is not a database, however long it may be"), 0o600))
	for url, want := range map[string]string{
		"":                                "sqlite:// or postgres://",
		"log.db":                          "sqlite:// or postgres://",
		"mysql://localhost/x":             "sqlite:// or postgres://",
		"sqlite://":                       "names no file",
		"sqlite://folder/":                "names no file",
		"sqlite://:memory:":               "names no file",
		"sqlite://log.db?mode=memory":     "options are not allowed",
		"sqlite://" + file + "/log.db":    "not a directory",
		"sqlite://" + folder:              folder,
		"sqlite://" + file:                "not a database",
		"postgres://localhost:port/x":     "URL",
		"postgres://u:secret@127.0.0.1:1": "connect",
	} {
		l, err := sqllog.Open(t.Context(), url, sqllog.Options{Timeout: patience})
		require.Error(t, err, url)
		require.Nil(t, l, url)
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "secret")
		assert.NotContains(t, err.Error(), "\n", "one line")
	}
}

func TestDamagedRowsAreNotHandedOut(t *testing.T) {
	for why, statement := range map[string]string{
		"row 3 follows row 1":                      "DELETE FROM command_log WHERE idx = 2",
		"row 2 follows row 0":                      "DELETE FROM command_log WHERE idx = 1",
		"names 0000000000000007":                   "UPDATE command_log SET previous_row_id = 7 WHERE idx = 3",
		"payload of row 2 does not match":          "UPDATE command_log SET payload = x'00' WHERE idx = 2",
		"payload of row 4 does not match":          "UPDATE command_log SET digest = digest + 1 WHERE idx = 4",
		"row 4 names 0000000000000000 as its pred": "UPDATE command_log SET previous_row_id = 0 WHERE idx = 4",
	} {
		path := filepath.Join(t.TempDir(), "log.db")
		l := openSQLite(t, path)
		for seq := range uint64(4) {
			_, err := l.Append(t.Context(), commands.Insert{Origin: commands.Origin{Node: 1, Epoch: 1, Seq: seq}, Payload: []byte("payload")})
			require.NoError(t, err)
		}
		execSQLite(t, path, statement)
		rows, err := l.Read(t.Context(), 0, 10, 1000)
		require.ErrorIs(t, err, commands.ErrDamaged)
		assert.ErrorContains(t, err, why)
		assert.Empty(t, rows)
	}
}

func TestAMissingHeadIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l := openSQLite(t, path)
	execSQLite(t, path, "DELETE FROM log_head")
	_, err := l.Head(t.Context())
	require.ErrorContains(t, err, "log_head has no row")
	_, err = l.Append(t.Context(), commands.Insert{Payload: []byte("p")})
	require.ErrorContains(t, err, "log_head has no row")
}
