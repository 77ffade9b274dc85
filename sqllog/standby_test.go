package sqllog_test

import (
	"context"
	"errors"
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
	other, err := sqllog.Open(t.Context(), server.URL, sqllog.Options{Timeout: patience})
	require.NoError(t, err)
	_, err = appendUntilSent(t.Context(), other, insert(1))
	require.NoError(t, err)
	standbys := func(names string) {
		require.NoError(t, server.Configure(t.Context(), "synchronous_standby_names", names))
	}

	standbys("away")
	waiting := uint64(1)
	for err == nil || errors.Is(err, commands.ErrNotSent) { // until the server's processes have all heard of it
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
	}, patience, time.Millisecond)
	require.NoError(t, l.Close())
	require.NoError(t, other.Close())
}

// What a server is told after a node started makes no acknowledgement worth less.
func TestPostgresAppendsAreDurableWhateverItIsToldLater(t *testing.T) {
	server := sqllogtest.StartServer(t)
	l, err := sqllog.Open(t.Context(), server.URL, sqllog.Options{Timeout: patience})
	require.NoError(t, err)
	require.NoError(t, server.Configure(t.Context(), "wal_writer_delay", "10s"))
	require.NoError(t, server.Configure(t.Context(), "synchronous_commit", "off"))
	for seq := range uint64(10) {
		_, err = appendUntilSent(t.Context(), l, insert(seq+1))
		require.NoError(t, err)
	}
	require.NoError(t, server.Crash())
	require.NoError(t, server.Start(t.Context()))
	rows, err := server.Query(t.Context(), "SELECT count(*) FROM command_log")
	require.NoError(t, err)
	assert.Equal(t, "10", rows)
	require.NoError(t, l.Close())
}
