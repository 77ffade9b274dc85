package sqllog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

const tableCount = "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema()"

func TestPostgresBehindAPoolerThatKeepsSessions(t *testing.T) {
	d := sqllogtest.Postgres(t)
	through := d.Pooler(t, "session")
	l, err := sqllog.Open(t.Context(), through, sqllog.Options{Timeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	other := openPostgres(t, d)
	awaitWake(t, l) // its peer's own check
	at, err := appendUntilSent(t.Context(), l, insert(1))
	require.NoError(t, err)
	awaitWake(t, other)
	in := insert(2)
	in.Applied = at.Position
	_, err = appendUntilSent(t.Context(), other, in)
	require.NoError(t, err)
	awaitWake(t, l)
	rows, err := l.Read(t.Context(), 0, 10, 1<<20)
	require.NoError(t, err)
	assert.Len(t, rows, 2)
}

func TestPostgresRefusesAPoolerThatSharesSessions(t *testing.T) {
	for _, mode := range []string{"transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			d := sqllogtest.Postgres(t)
			_, err := sqllog.Open(t.Context(), d.Pooler(t, mode), sqllog.Options{Timeout: patience})
			require.ErrorContains(t, err, "pool_mode=session")
			assert.NotContains(t, err.Error(), "\n")
			assert.Equal(t, "0", d.String(t, tableCount), "and touches nothing")
		})
	}
}

// A pooler that does not clean sessions up hands on what the one before prepared.
func TestPostgresBehindAPoolerThatLeavesSessionsAsTheyAre(t *testing.T) {
	d := sqllogtest.Postgres(t)
	through := d.Pooler(t, "session", "server_reset_query =")
	for seq := range uint64(3) {
		l, err := sqllog.Open(t.Context(), through, sqllog.Options{Timeout: patience})
		require.NoError(t, err)
		_, err = appendUntilSent(t.Context(), l, insert(seq+1))
		require.NoError(t, err)
		_, err = l.Read(t.Context(), 0, 10, 1<<20)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

// A session that somebody else cleaned up is given up, and not tried for ever.
func TestPostgresSessionThatLostItsStatements(t *testing.T) {
	l := openPostgres(t, sqllogtest.Postgres(t))
	_, err := appendUntilSent(t.Context(), l, insert(1))
	require.NoError(t, err)
	sqllog.CleanUp(t.Context(), t, l)
	_, err = l.Append(t.Context(), insert(2))
	require.ErrorIs(t, err, commands.ErrNotSent)
	_, err = appendUntilSent(t.Context(), l, insert(2))
	require.NoError(t, err)
}
