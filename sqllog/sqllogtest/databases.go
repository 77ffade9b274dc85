package sqllogtest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/sqllog"
)

// patience bounds a call to a log, and what else must come, however busy the
// machine is: it only ends a test that hangs.
const patience = time.Minute

// Databases runs a test on a log in each database: SQLite and Postgres. open
// opens the log, which is empty the first time; who opens it closes it, and on
// SQLite before it is opened again.
func Databases(t *testing.T, test func(t *testing.T, open func(t testing.TB) Log)) {
	opener := func(url string) func(testing.TB) Log {
		return func(t testing.TB) Log {
			t.Helper()
			l, err := sqllog.Open(t.Context(), url, sqllog.Options{Timeout: patience})
			require.NoError(t, err)
			return l
		}
	}
	t.Run("sqlite", func(t *testing.T) { test(t, opener("sqlite://"+filepath.Join(t.TempDir(), "log.db"))) })
	t.Run("postgres", func(t *testing.T) { test(t, opener(Postgres(t).URL)) })
}

// Open opens the log in the database, as one more node does, until the test ends.
func (d *Database) Open(t testing.TB) Log {
	t.Helper()
	l, err := sqllog.Open(t.Context(), d.URL, sqllog.Options{Timeout: patience})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}
