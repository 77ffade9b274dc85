package sqllogtest

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
)

// PostgresVariable names the environment variable with the URL of the server
// for tests.
const PostgresVariable = "PICOMQ_TEST_POSTGRES"

// Database is an empty schema on a real Postgres, dropped when its test ends.
type Database struct {
	// URL opens the schema.
	URL string
	// Admin is a pool of plain connections to the same schema, for looking and
	// for breaking things.
	Admin *sql.DB
}

// Postgres makes an empty schema for one test. It fails the test when there is
// no server.
func Postgres(t testing.TB) *Database {
	t.Helper()
	server := os.Getenv(PostgresVariable)
	if server == "" {
		require.FailNow(t, PostgresVariable+" is not set: run the tests through scripts/with-postgres")
	}
	schema := fmt.Sprintf("test_%016x", rand.Uint64())
	u, err := url.Parse(server)
	require.NoError(t, err)
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()

	admin, err := sql.Open("pgx", u.String())
	require.NoError(t, err)
	d := &Database{URL: u.String(), Admin: admin}
	d.Exec(t, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		// The test's context is over.
		_, err := admin.ExecContext(context.Background(), "DROP SCHEMA "+schema+" CASCADE")
		require.NoError(t, err)
		require.NoError(t, admin.Close())
	})
	return d
}

// Role makes a role for the length of the test that may use the schema, and of
// what is in it only what the grants say, such as "SELECT ON ALL TABLES IN
// SCHEMA". It returns the URL that opens the schema as that role.
func (d *Database) Role(t testing.TB, grants ...string) string {
	t.Helper()
	schema := d.String(t, "SELECT current_schema()")
	role := fmt.Sprintf("role_%016x", rand.Uint64())
	d.Exec(t, "CREATE ROLE "+role+" LOGIN PASSWORD 'secret'")
	t.Cleanup(func() {
		for _, statement := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			_, err := d.Admin.ExecContext(context.Background(), statement)
			require.NoError(t, err)
		}
	})
	for _, grant := range append([]string{"USAGE ON SCHEMA"}, grants...) {
		d.Exec(t, "GRANT "+grant+" "+schema+" TO "+role)
	}
	u, err := url.Parse(d.URL)
	require.NoError(t, err)
	u.User = url.UserPassword(role, "secret")
	return u.String()
}

// Exec runs a statement.
func (d *Database) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	_, err := d.Admin.ExecContext(t.Context(), statement, args...)
	require.NoError(t, err)
}

// String asks for one value as text.
func (d *Database) String(t testing.TB, query string, args ...any) string {
	t.Helper()
	var value string
	require.NoError(t, d.Admin.QueryRowContext(t.Context(), query, args...).Scan(&value))
	return value
}

// Rewind is [Backend].Rewind.
func (d *Database) Rewind(t testing.TB, to commands.Index) {
	t.Helper()
	for _, statement := range []string{
		"DELETE FROM command_log WHERE idx > $1",
		"DELETE FROM origins WHERE idx > $1",
	} {
		d.Exec(t, statement, int64(to))
	}
}
