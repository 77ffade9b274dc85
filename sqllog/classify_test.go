package sqllog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
)

var sentinels = []error{commands.ErrNotSent, commands.ErrUnknown, commands.ErrDuplicateOrigin, commands.ErrLostTail}

func TestWhatPostgresErrorsMean(t *testing.T) {
	refused := errors.New("none of the sentinels")
	for _, c := range []struct {
		why  string
		err  error
		want error
	}{
		{"origin", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "23505", ConstraintName: "origins_pkey"}, commands.ErrDuplicateOrigin},
		{"another key", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "23505", ConstraintName: "command_log_pkey"}, refused},
		{"value out of range", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "22003"}, refused},
		{"no permission", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "42501"}, refused},
		{"statement timeout", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "57014"}, commands.ErrNotSent},
		{"deadlock", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "40P01"}, commands.ErrNotSent},
		{"serialization", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "40001"}, commands.ErrNotSent},
		{"completion unknown", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "40003"}, commands.ErrUnknown},
		{"lock timeout", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "55P03"}, commands.ErrNotSent},
		{"disk full", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "53100"}, commands.ErrNotSent},
		{"read only", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "25006"}, commands.ErrNotSent},
		{"statement gone", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "26000"}, commands.ErrNotSent},
		{"terminated", &pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "57P01"}, commands.ErrUnknown},
		{"a timeout that ends the session", &pgconn.PgError{SeverityUnlocalized: "FATAL", Code: "57014"}, commands.ErrUnknown},
		{"internal", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "XX000"}, commands.ErrUnknown},
		{"connection broken", io.ErrUnexpectedEOF, commands.ErrUnknown},
		{"deadline", context.DeadlineExceeded, commands.ErrUnknown},
		{"cancelled", context.Canceled, commands.ErrUnknown},
	} {
		got := sqllog.ClassifyPostgres(c.err)
		require.ErrorIs(t, got, c.err, c.why)
		for _, sentinel := range sentinels {
			assert.Equal(t, sentinel == c.want, errors.Is(got, sentinel), "%s: %v", c.why, sentinel) //nolint:errorlint // which sentinel it is, not what it wraps
		}
	}
}

func TestWhatMayPass(t *testing.T) {
	for code, may := range map[string]bool{
		"57P01": true, "57P03": true, "53300": true, "08006": true, "40001": true, "55P03": true, "57014": true, // the server's state
		"57P04": false, "28P01": false, "3D000": false, "3F000": false, "42501": false, "25006": false, "42P01": false, // a person's to change
	} {
		err := fmt.Errorf("open the log: %w", &pgconn.PgError{Code: code})
		assert.Equal(t, may, sqllog.MayPass(err), code)
	}
	_, err := sqllog.Open(t.Context(), "postgres://127.0.0.1:1/x?connect_timeout=1", sqllog.Options{})
	require.Error(t, err)
	assert.True(t, sqllog.MayPass(err), err)
	for _, url := range []string{"postgres://127.0.0.1:1/x?sslmode=sometimes", "sqlite:///dev/null/log.db", "nonsense"} {
		_, err := sqllog.Open(t.Context(), url, sqllog.Options{})
		require.Error(t, err)
		assert.False(t, sqllog.MayPass(err), err)
	}
}

func TestWhatSQLiteErrorsMean(t *testing.T) {
	require.ErrorIs(t, sqllog.ClassifySQLite(context.Canceled), commands.ErrUnknown)
	require.ErrorIs(t, sqllog.ClassifySQLite(io.EOF), commands.ErrUnknown)
}

// A file that may not grow refuses the row, says that it wrote nothing, and
// takes rows again when it may.
func TestSQLiteFull(t *testing.T) {
	l := openSQLite(t, t.TempDir()+"/log.db")
	in := commands.Insert{Origin: commands.Origin{Node: 1, Epoch: 1, Seq: 1}, Payload: make([]byte, 1<<20)}
	sqllog.LimitSQLite(t.Context(), t, l, 40)
	_, err := l.Append(t.Context(), in)
	require.ErrorIs(t, err, commands.ErrNotSent)
	require.ErrorContains(t, err, "full")
	sqllog.LimitSQLite(t.Context(), t, l, 1<<20)
	at, err := l.Append(t.Context(), in)
	require.NoError(t, err)
	assert.EqualValues(t, 1, at.Index)
}

func TestUnsafeServersAreNamed(t *testing.T) {
	require.NoError(t, sqllog.StandbyError(false))
	require.ErrorContains(t, sqllog.StandbyError(true), "pg_is_in_recovery")
	require.NoError(t, sqllog.SettingError("fsync", "on"))
	require.ErrorContains(t, sqllog.SettingError("fsync", "off"), "setting fsync is off")
}
