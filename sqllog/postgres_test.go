package sqllog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

func TestPostgres(t *testing.T) {
	sqllogtest.Run(t, func(t *testing.T) sqllogtest.Backend {
		d := sqllogtest.Postgres(t)
		return sqllogtest.Backend{
			Log:    openPostgres(t, d),
			Peer:   func(t testing.TB) sqllogtest.Log { return openPostgres(t, d) },
			Rewind: d.Rewind,
		}
	})
}

func openPostgres(t testing.TB, d *sqllogtest.Database) *sqllog.Log {
	t.Helper()
	l, err := sqllog.Open(t.Context(), d.URL, sqllog.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}
