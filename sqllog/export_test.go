package sqllog

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// What the tests outside the package need of its inside.
var (
	PostgresConfig   = postgresConfig
	OpenPostgres     = openPostgres
	ChannelOf        = channelName
	ClassifyPostgres = classifyPostgres
	ClassifySQLite   = classifySQLite
	StandbyError     = standbyError
	Accept           = (*primaries).accept
	SettingError     = settingError
	ReadQuery        = readQuery
	PostgresTruncate = postgresTruncate
)

// Primaries is what a log knows of the servers that it met.
type Primaries = primaries

// MeetPromoted lets a log meet a server that was promoted.
func MeetPromoted(ctx context.Context, t testing.TB, l *Log) {
	t.Helper()
	conn, err := l.writer.DB.Conn(ctx)
	require.NoError(t, err)
	require.NoError(t, conn.Raw(func(pgx any) error {
		server := pgx.(*stdlib.Conn).Conn().PgConn().CustomData()[acceptedKey].(accepted)
		return server.by.accept(server.timeline + 1)
	}))
	require.NoError(t, conn.Close())
}

// TimelineOf asks a server for its timeline.
func TimelineOf(ctx context.Context, url string) (uint32, error) {
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	timeline, err := askTimeline(ctx, conn)
	return timeline, errors.Join(err, conn.Close(ctx))
}

// LimitSQLite lets a log's file have so many pages.
func LimitSQLite(ctx context.Context, t testing.TB, l *Log, pages int) {
	t.Helper()
	_, err := l.writer.DB.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages))
	require.NoError(t, err)
}

// CleanUp makes the log's idle connection forget its prepared statements.
func CleanUp(ctx context.Context, t testing.TB, l *Log) {
	t.Helper()
	_, err := l.writer.DB.ExecContext(ctx, "DEALLOCATE ALL")
	require.NoError(t, err)
}
