package sqllog_test

import (
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// TestPostgresPassesOverAHostThatDoesNotAnswer, like a machine that is gone: there
// is time for the next one.
func TestPostgresPassesOverAHostThatDoesNotAnswer(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }() // it accepts nobody
	d := sqllogtest.Postgres(t)
	for i, timeout := range []string{"0", "600"} {
		both := change(t, d, func(u *url.URL, query url.Values) {
			u.Host = silent.Addr().String() + "," + u.Host
			query.Set("target_session_attrs", "read-write")
			query.Set("connect_timeout", timeout)
		})
		l, err := sqllog.Open(t.Context(), both, sqllog.Options{Timeout: patience})
		for tries := 1; err != nil && sqllog.MayPass(err) && tries < 20; tries++ { // a busy machine's own answer may come too late
			l, err = sqllog.Open(t.Context(), both, sqllog.Options{Timeout: patience})
		}
		require.NoError(t, err)
		_, err = appendUntilSent(t.Context(), l, insert(uint64(i)+1))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

// TestPostgresLeavesAPrimaryThatWasReplaced for good.
func TestPostgresLeavesAPrimaryThatWasReplaced(t *testing.T) {
	var met sqllog.Primaries
	accept := sqllog.Accept
	require.NoError(t, accept(&met, 0), "it does not tell")
	require.NoError(t, accept(&met, 3))
	require.NoError(t, accept(&met, 3))
	require.NoError(t, accept(&met, 5))
	for _, old := range []uint32{0, 3, 4} {
		require.ErrorContains(t, accept(&met, old), "stop it for good")
	}
	require.NoError(t, accept(&met, 5))
}

// TestPostgresUsesNoConnectionToAPrimaryThatWasReplaced, neither one that it has
// nor a new one.
func TestPostgresUsesNoConnectionToAPrimaryThatWasReplaced(t *testing.T) {
	l := openPostgres(t, sqllogtest.Postgres(t))
	_, err := l.Append(t.Context(), insert(1))
	require.NoError(t, err)
	sqllog.MeetPromoted(t.Context(), t, l)
	_, err = l.Append(t.Context(), insert(2))
	require.ErrorIs(t, err, commands.ErrNotSent)
	require.ErrorContains(t, err, "old primary")
}

// TestPostgresIsAskedForItsTimeline, whatever the role may.
func TestPostgresIsAskedForItsTimeline(t *testing.T) {
	d := sqllogtest.Postgres(t)
	for _, databaseURL := range []string{d.URL, d.Role(t)} {
		timeline, err := sqllog.TimelineOf(t.Context(), databaseURL)
		require.NoError(t, err)
		assert.EqualValues(t, 1, timeline)
	}
}
