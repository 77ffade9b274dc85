package sqllog

import (
	"context"
	"fmt"
	"testing"

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
	SettingError     = settingError
	ReadQuery        = readQuery
	PostgresTruncate = postgresTruncate
)

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
