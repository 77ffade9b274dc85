package sqllog_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
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
	l, err := sqllog.Open(t.Context(), d.URL, sqllog.Options{Timeout: patience})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func insert(seq uint64) commands.Insert {
	return commands.Insert{Origin: commands.Origin{Node: 1, Epoch: 1, Seq: seq}, Payload: fmt.Appendf(nil, "payload %d", seq)}
}

// appendUntilSent repeats an append that the server refused to wait for.
func appendUntilSent(ctx context.Context, l *sqllog.Log, in commands.Insert) (commands.Inserted, error) {
	for {
		at, err := l.Append(ctx, in)
		if !errors.Is(err, commands.ErrNotSent) || ctx.Err() != nil {
			return at, err
		}
	}
}

// lockHead takes the lock of appends in this schema.
const lockHead = "SELECT pg_advisory_xact_lock(hashtext('picomq append'), hashtext(current_schema()))"

// holdHead takes the lock of appends in a transaction of the database's owner.
func holdHead(t *testing.T, d *sqllogtest.Database) *sql.Tx {
	t.Helper()
	tx, err := d.Admin.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), lockHead)
	require.NoError(t, err)
	return tx
}

const (
	// locksOfAppends is who holds the lock of appends in this schema, or waits for it.
	locksOfAppends = `FROM pg_stat_activity AS a JOIN pg_locks AS l ON l.pid = a.pid
WHERE l.locktype = 'advisory' AND l.classid::bigint = hashtext('picomq append')::bigint & 4294967295
AND l.objid::bigint = hashtext(current_schema())::bigint & 4294967295`

	waitingQuery = "SELECT a.pid " + locksOfAppends + " AND NOT l.granted LIMIT 1"
)

// awaitWaiting returns when a backend waits to append in this schema.
func awaitWaiting(t *testing.T, d *sqllogtest.Database) {
	t.Helper()
	var pid int
	require.Eventually(t, func() bool {
		return d.Admin.QueryRowContext(t.Context(), waitingQuery).Scan(&pid) == nil
	}, patience, time.Millisecond)
}

// terminateUntilAnswered terminates the backend that waits to append, again
// when it had given up by itself just then.
func terminateUntilAnswered(t *testing.T, d *sqllogtest.Database, answers <-chan answer) answer {
	t.Helper()
	for {
		select {
		case a := <-answers:
			return a
		case <-time.After(5 * time.Millisecond):
			d.Exec(t, "SELECT pg_terminate_backend(pid) FROM ("+waitingQuery+") AS waiting")
		}
	}
}

type answer struct {
	at  commands.Inserted
	err error
}

// appendAside appends on a goroutine.
func appendAside(t *testing.T, l *sqllog.Log, in commands.Insert) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		at, err := appendUntilSent(t.Context(), l, in)
		answers <- answer{at, err}
	}()
	return answers
}

func TestPostgresClockIsReadUnderTheLock(t *testing.T) {
	for _, end := range []struct {
		name string
		end  func(*sql.Tx) error
	}{{"after a commit", (*sql.Tx).Commit}, {"after a rollback", (*sql.Tx).Rollback}} {
		t.Run(end.name, func(t *testing.T) {
			d := sqllogtest.Postgres(t)
			l := openPostgres(t, d)
			holder := holdHead(t, d)
			answers := appendAside(t, l, insert(1))
			awaitWaiting(t, d)
			var released int64
			require.NoError(t, holder.QueryRowContext(t.Context(),
				"SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM pg_sleep(0.02)").Scan(&released))
			require.NoError(t, end.end(holder))
			a := <-answers
			require.NoError(t, a.err)
			assert.GreaterOrEqual(t, int64(a.at.DatabaseTime), released)
		})
	}
}

func TestPostgresTerminatedWhileAppending(t *testing.T) {
	d := sqllogtest.Postgres(t)
	l := openPostgres(t, d)
	holder := holdHead(t, d)
	answers := appendAside(t, l, insert(1))
	require.ErrorIs(t, terminateUntilAnswered(t, d, answers).err, commands.ErrUnknown)
	require.NoError(t, holder.Rollback())

	_, _, found, err := l.FindOrigin(t.Context(), insert(1).Origin, 0)
	require.NoError(t, err)
	assert.False(t, found)
	_, err = appendUntilSent(t.Context(), l, insert(1))
	require.NoError(t, err)
	assert.Equal(t, "1", d.String(t, "SELECT count(*) FROM command_log"))
}

func TestPostgresAnswerLost(t *testing.T) {
	d := sqllogtest.Postgres(t)
	p := startProxy(t, d.URL)
	l, err := sqllog.Open(t.Context(), p.url, sqllog.Options{Timeout: patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	first, err := appendUntilSent(t.Context(), l, insert(1))
	require.NoError(t, err)

	p.mute.Store(true)
	answers := appendAside(t, l, insert(2))
	require.Eventually(t, func() bool {
		return d.String(t, "SELECT count(*) FROM command_log") == "2"
	}, patience, time.Millisecond)
	p.cut()
	p.mute.Store(false)
	a := <-answers
	require.ErrorIs(t, a.err, commands.ErrUnknown)

	var at commands.Inserted
	var digest uint64
	require.Eventually(t, func() bool { // the pool's other connections were cut too
		var found bool
		at, digest, found, err = l.FindOrigin(t.Context(), insert(2).Origin, 0)
		return err == nil && found
	}, patience, time.Millisecond)
	assert.Equal(t, commands.PayloadDigest(insert(2).Payload), digest)
	assert.Equal(t, first.Row, at.Previous)
	_, err = appendUntilSent(t.Context(), l, insert(2))
	require.ErrorIs(t, err, commands.ErrDuplicateOrigin)
	assert.Equal(t, "2", d.String(t, "SELECT count(*) FROM command_log"))
}

func TestPostgresSilentServerIsUnknown(t *testing.T) {
	d := sqllogtest.Postgres(t)
	p := startProxy(t, d.URL)
	l, err := sqllog.Open(t.Context(), p.url, sqllog.Options{Timeout: time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	p.mute.Store(true)
	_, err = l.Append(t.Context(), insert(1))
	require.Error(t, err, "it ends by itself, by Options.Timeout")
	assert.True(t, errors.Is(err, commands.ErrUnknown) || errors.Is(err, commands.ErrNotSent), "%v", err)
	p.mute.Store(false)
	p.cut()
}

// A node that freezes while it sends an append, after any byte of it, holds
// nothing that others need.
func TestPostgresFrozenNodeDoesNotStopOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		pass func(b []byte) int
		rows string // that the frozen node wrote
	}{
		{"before the first byte", func([]byte) int { return 0 }, "0"},
		{"after the first byte", func([]byte) int { return 1 }, "0"},
		{"halfway", func(b []byte) int { return len(b) / 2 }, "0"},
		{"before the last byte", func(b []byte) int { return len(b) - 1 }, "0"},
		{"after the last byte", func(b []byte) int { return len(b) }, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := sqllogtest.Postgres(t)
			p := startProxy(t, d.URL)
			frozen, err := sqllog.Open(t.Context(), p.url, sqllog.Options{Timeout: time.Hour})
			require.NoError(t, err)
			other := openPostgres(t, d)
			_, err = frozen.Append(t.Context(), insert(1)) // the connection is open
			require.NoError(t, err)

			reached := make(chan struct{})
			done := false // only the one goroutine of the connection that appends
			limit := func(b []byte) int {
				if done {
					return 0
				}
				done = true
				close(reached)
				return c.pass(b)
			}
			p.mute.Store(true)
			p.freeze.Store(&limit)
			answers := appendAside(t, frozen, insert(2))
			<-reached
			if c.rows == "1" {
				require.Eventually(t, func() bool {
					return d.String(t, "SELECT idx FROM log_head") == "2"
				}, patience, time.Millisecond)
			}
			if c.rows == "0" {
				require.Equal(t, "0", d.String(t, "SELECT count(*) "+locksOfAppends+" AND l.granted"), "it holds no lock")
			}
			for seq := range uint64(3) {
				_, err := appendUntilSent(t.Context(), other, insert(10+seq))
				require.NoError(t, err)
			}
			assert.Equal(t, c.rows, d.String(t, "SELECT count(*) FROM origins WHERE seq = 2"))
			p.mute.Store(false)
			p.freeze.Store(nil)
			p.cut()
			require.ErrorIs(t, (<-answers).err, commands.ErrUnknown)
			require.NoError(t, frozen.Close())
		})
	}
}

// Whoever does open a transaction and freezes in it is thrown out.
func TestPostgresIdleTransactionIsEnded(t *testing.T) {
	d := sqllogtest.Postgres(t)
	l := openPostgres(t, d)
	config, err := sqllog.PostgresConfig(d.URL)
	require.NoError(t, err)
	frozen, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer func() { _ = frozen.Close(context.Background()) }()
	tx, err := frozen.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), lockHead)
	require.NoError(t, err)

	at, err := appendUntilSent(t.Context(), l, insert(1))
	require.NoError(t, err)
	assert.EqualValues(t, 1, at.Index, "the frozen session's lock went with it")
}

func TestPostgresListenerComesBack(t *testing.T) {
	d := sqllogtest.Postgres(t)
	l, other := openPostgres(t, d), openPostgres(t, d)
	_, err := appendUntilSent(t.Context(), other, insert(1))
	require.NoError(t, err)
	awaitWake(t, l)

	d.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE query = 'LISTEN ' || $1`, sqllog.ChannelOf(d.String(t, "SELECT current_schema()")))
	awaitWake(t, l) // what it may have missed
	_, err = appendUntilSent(t.Context(), other, insert(2))
	require.NoError(t, err)
	awaitWake(t, l)
}

func awaitWake(t *testing.T, l *sqllog.Log) {
	t.Helper()
	select {
	case <-l.Wakeups():
	case <-time.After(patience):
		require.Fail(t, "no wakeup came")
	}
}

func TestPostgresChannelsAreSeparate(t *testing.T) {
	one, two := sqllogtest.Postgres(t), sqllogtest.Postgres(t)
	l := openPostgres(t, one)
	other := openPostgres(t, two)
	_, err := appendUntilSent(t.Context(), other, insert(1))
	require.NoError(t, err)
	awaitWake(t, other)
	assert.Empty(t, l.Wakeups(), "another cluster's appends wake nobody here")
}

func TestPostgresRefusesUnsafeSettings(t *testing.T) {
	d := sqllogtest.Postgres(t)
	_, err := sqllog.Open(t.Context(), d.URL+"&synchronous_commit=off", sqllog.Options{Timeout: patience})
	require.ErrorContains(t, err, "synchronous_commit is off")
	assert.Equal(t, "0", d.String(t, "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema()"), "and touches nothing")
	l, err := sqllog.Open(t.Context(), d.URL+"&synchronous_commit=local", sqllog.Options{Timeout: patience})
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

func TestPostgresSettingsCannotBeOverridden(t *testing.T) {
	d := sqllogtest.Postgres(t)
	config, err := sqllog.PostgresConfig(d.URL + "&default_transaction_isolation=serializable&statement_timeout=0&client_encoding=SJIS")
	require.NoError(t, err)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	for setting, want := range map[string]string{
		"transaction_isolation":               "read committed",
		"statement_timeout":                   "900ms",
		"idle_in_transaction_session_timeout": "900ms",
		"tcp_user_timeout":                    "900",
		"client_encoding":                     "UTF8",
	} {
		var got string
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got))
		assert.Equal(t, want, got, setting)
	}
}

func TestPostgresRefusesANewerSchema(t *testing.T) {
	d := sqllogtest.Postgres(t)
	l, err := sqllog.Open(t.Context(), d.URL, sqllog.Options{Timeout: patience})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	d.Exec(t, "INSERT INTO picomq_migrations (name, group_id) VALUES ('29990101000000', 9)")
	_, err = sqllog.Open(t.Context(), d.URL, sqllog.Options{Timeout: patience})
	require.ErrorContains(t, err, "29990101000000")
}

// An append is one message and one transaction.
func TestPostgresAppendIsOneMessage(t *testing.T) {
	d := sqllogtest.Postgres(t)
	p := startProxy(t, d.URL)
	l, err := sqllog.Open(t.Context(), p.url, sqllog.Options{Timeout: patience})
	require.NoError(t, err)
	_, err = l.Append(t.Context(), insert(0)) // the connection is open
	require.NoError(t, err)
	var messages []string
	count := func(b []byte) int {
		messages = append(messages, string(b[5:]))
		return len(b)
	}
	p.freeze.Store(&count)
	for seq := range uint64(5) {
		_, err := appendUntilSent(t.Context(), l, insert(1+seq))
		require.NoError(t, err)
	}
	p.freeze.Store(nil)
	require.NoError(t, l.Close())
	require.Len(t, messages, 5)
	for _, text := range messages {
		assert.True(t, strings.HasPrefix(text, "EXECUTE picomq_lock; EXECUTE picomq_append"), text)
	}
	assert.Equal(t, "6", d.String(t, "SELECT count(DISTINCT xmin::text) FROM command_log"))
}
