package sqllog_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// change is the database's URL with something else in it.
func change(t *testing.T, d *sqllogtest.Database, f func(u *url.URL, query url.Values)) string {
	t.Helper()
	u, err := url.Parse(d.URL)
	require.NoError(t, err)
	query := u.Query()
	f(u, query)
	u.RawQuery = query.Encode()
	return u.String()
}

func TestPostgresSaysWhatIsWrongWithTheURL(t *testing.T) {
	d := sqllogtest.Postgres(t)
	for _, c := range []struct {
		name string
		url  string
		says []string
	}{
		{"nobody listens", change(t, d, func(u *url.URL, _ url.Values) { u.Host = "127.0.0.1:1" }), []string{"127.0.0.1:1", "host and port"}},
		{"nobody listens, with TLS or without", change(t, d, func(u *url.URL, q url.Values) { u.Host = "127.0.0.1:1"; q.Set("sslmode", "prefer") }), []string{"127.0.0.1:1", "host and port"}},
		{"no such host", change(t, d, func(u *url.URL, q url.Values) { u.Host = "nowhere.invalid:5432"; q.Set("sslmode", "prefer") }), []string{"nowhere.invalid", "host and port"}},
		{"no such database", change(t, d, func(u *url.URL, _ url.Values) { u.Path = "/nothing" }), []string{`"nothing"`, "create the database"}},
		{"no such role", change(t, d, func(u *url.URL, _ url.Values) { u.User = url.UserPassword("nobody", "secret") }), []string{"nobody", "user and the password"}},
		{"no such schema", change(t, d, func(_ *url.URL, q url.Values) { q.Set("search_path", "nowhere") }), []string{"create the schema"}},
		{"no such setting", change(t, d, func(_ *url.URL, q url.Values) { q.Set("colour", "blue") }), []string{"colour"}},
		{"a URL of something else", "postgres://user:secret@host:port/", []string{"URL"}},
		{"a role that may do nothing", d.Role(t), []string{"permission denied", "grant the role CREATE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := sqllog.Open(t.Context(), c.url, sqllog.Options{Timeout: patience})
			require.Error(t, err)
			for _, text := range c.says {
				assert.ErrorContains(t, err, text)
			}
			assert.NotContains(t, err.Error(), "\n")
			assert.LessOrEqual(t, strings.Count(err.Error(), "dial error"), 1, "%v", err)
			assert.LessOrEqual(t, strings.Count(err.Error(), "no such host"), 1, "%v", err)
			assert.NotContains(t, err.Error(), "secret")
			assert.Equal(t, "0", d.String(t, tableCount), "nothing was made")
		})
	}
}

func TestPostgresNeedsTheRightsOfARunningNode(t *testing.T) {
	d := sqllogtest.Postgres(t)
	openPostgres(t, d) // made the tables
	_, err := sqllog.Open(t.Context(), d.Role(t, "SELECT ON ALL TABLES IN SCHEMA"), sqllog.Options{Timeout: patience})
	require.ErrorContains(t, err, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES")
	assert.NotContains(t, err.Error(), "\n")

	l, err := sqllog.Open(t.Context(), d.Role(t, "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA"), sqllog.Options{Timeout: patience})
	require.NoError(t, err, "these are enough")
	_, err = appendUntilSent(t.Context(), l, insert(1))
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// TestPostgresNamesTheRightsThatAreMissing, not those that others need.
func TestPostgresNamesTheRightsThatAreMissing(t *testing.T) {
	d := sqllogtest.Postgres(t)
	openPostgres(t, d) // made the tables
	role := d.Role(t)
	_, err := sqllog.Open(t.Context(), role, sqllog.Options{Timeout: patience})
	require.ErrorContains(t, err, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA")
	require.NotContains(t, err.Error(), "CREATE")

	d.Exec(t, "REVOKE USAGE ON SCHEMA "+d.String(t, "SELECT current_schema()")+" FROM "+roleOf(t, role))
	_, err = sqllog.Open(t.Context(), role, sqllog.Options{Timeout: patience})
	require.ErrorContains(t, err, "GRANT USAGE ON SCHEMA")
}

func roleOf(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	return u.User.Username()
}

func TestPostgresAsksBeforeItMakesTables(t *testing.T) {
	d := sqllogtest.Postgres(t)
	refusal := errors.New("the bucket belongs to another log")
	_, err := sqllog.Open(t.Context(), d.URL, sqllog.Options{Timeout: patience, Create: func(context.Context) error { return refusal }})
	require.ErrorIs(t, err, refusal)
	assert.Equal(t, "0", d.String(t, tableCount))
}

func TestPostgresManyNodesStartAtOnce(t *testing.T) {
	d := sqllogtest.Postgres(t)
	var group errgroup.Group
	for range 5 {
		group.Go(func() error {
			l, err := sqllog.Open(t.Context(), d.URL, sqllog.Options{Timeout: patience})
			if err != nil {
				return err
			}
			return l.Close()
		})
	}
	require.NoError(t, group.Wait())
	assert.Equal(t, "0", d.String(t, "SELECT idx FROM log_head"))
}

// A migration may go through a whole table, or wait for somebody who reads it, for
// longer than any statement of a log may take.
func TestPostgresMigrationsTakeTheirTime(t *testing.T) {
	d := sqllogtest.Postgres(t)
	l, err := sqllog.Open(t.Context(), d.URL, sqllog.Options{Timeout: patience})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	d.Exec(t, "DELETE FROM picomq_migrations WHERE name = (SELECT max(name) FROM picomq_migrations)")
	tx, err := d.Admin.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "LOCK TABLE origins")
	require.NoError(t, err)
	opened := make(chan error, 1)
	go func() {
		l, err := sqllog.Open(t.Context(), d.URL, sqllog.Options{Timeout: patience})
		if err == nil {
			err = l.Close()
		}
		opened <- err
	}()
	require.Eventually(t, func() bool {
		waits := d.String(t, `SELECT count(*) FROM pg_stat_activity AS a JOIN pg_locks AS l ON l.pid = a.pid
			WHERE NOT l.granted AND l.relation = 'origins'::regclass AND clock_timestamp() - a.query_start > $1 * interval '1 ms'`,
			(sqllog.ServerTimeout + 100*time.Millisecond).Milliseconds())
		return waits != "0" || len(opened) > 0
	}, patience, 10*time.Millisecond)
	require.NoError(t, tx.Commit())
	require.NoError(t, <-opened)
}
