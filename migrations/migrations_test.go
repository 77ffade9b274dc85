package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // the driver sqlite

	"github.com/picomq/picomq/migrations"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// tables lists the tables in a schema but for those that bun keeps.
var tables = map[string]string{
	"sqlite":   "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'picomq_migration%' ORDER BY name",
	"postgres": "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_name NOT LIKE 'picomq_migration%' ORDER BY table_name",
}

// eachDialect runs a test on an empty database of each.
func eachDialect(t *testing.T, test func(t *testing.T, folder string, db *bun.DB)) {
	t.Run("sqlite", func(t *testing.T) {
		db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "log.db"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		test(t, "sqlite", bun.NewDB(db, sqlitedialect.New()))
	})
	t.Run("postgres", func(t *testing.T) {
		test(t, "postgres", bun.NewDB(sqllogtest.Postgres(t).Admin, pgdialect.New()))
	})
}

func column(t *testing.T, db *bun.DB, query string) []string {
	t.Helper()
	var list []string
	require.NoError(t, db.NewRaw(query).Scan(t.Context(), &list))
	return list
}

func TestRunCreatesTheSchemaOnce(t *testing.T) {
	eachDialect(t, func(t *testing.T, folder string, db *bun.DB) {
		require.NoError(t, migrations.Run(t.Context(), db, nil))
		assert.Equal(t, []string{"command_log", "leases", "log_archive", "log_head", "nodes", "origins", "snapshots"}, column(t, db, tables[folder]))
		const applied = "SELECT name || ' ' || migrated_at FROM picomq_migrations ORDER BY id"
		first := column(t, db, applied)
		require.NotEmpty(t, first)
		_, err := db.ExecContext(t.Context(), "UPDATE log_archive SET idx = 5, truncated_idx = 5")
		require.NoError(t, err)

		require.NoError(t, migrations.Run(t.Context(), db, nil))
		assert.Equal(t, first, column(t, db, applied))
		assert.Equal(t, []string{"5"}, column(t, db, "SELECT truncated_idx FROM log_archive"))
	})
}

func TestRunAfterACrashBeforeTheMark(t *testing.T) {
	eachDialect(t, func(t *testing.T, _ string, db *bun.DB) {
		require.NoError(t, migrations.Run(t.Context(), db, nil))
		for _, statement := range []string{"UPDATE log_archive SET idx = 5, truncated_idx = 5", "DELETE FROM picomq_migrations WHERE name = (SELECT max(name) FROM picomq_migrations)"} {
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		require.NoError(t, migrations.Run(t.Context(), db, nil))
		assert.Equal(t, []string{"5"}, column(t, db, "SELECT truncated_idx FROM log_archive"), "what is there stays")
		assert.NotEmpty(t, column(t, db, "SELECT name FROM picomq_migrations"))
	})
}

func TestRunRefusesANewerSchema(t *testing.T) {
	eachDialect(t, func(t *testing.T, _ string, db *bun.DB) {
		require.NoError(t, migrations.Run(t.Context(), db, nil))
		_, err := db.ExecContext(t.Context(), "INSERT INTO picomq_migrations (id, name, group_id) VALUES (99, '29990101000000', 9)")
		require.NoError(t, err)
		err = migrations.Run(t.Context(), db, nil)
		var newer *migrations.NewerSchemaError
		require.ErrorAs(t, err, &newer)
		assert.Equal(t, "29990101000000", newer.Unknown)
		assert.ErrorContains(t, err, newer.Known)
	})
}

func TestCheckChangesNothing(t *testing.T) {
	eachDialect(t, func(t *testing.T, folder string, db *bun.DB) {
		require.ErrorContains(t, migrations.Check(t.Context(), db), "no command log")
		assert.Empty(t, column(t, db, tables[folder]))
		require.NoError(t, migrations.Run(t.Context(), db, nil))
		require.NoError(t, migrations.Check(t.Context(), db))
		_, err := db.ExecContext(t.Context(), "DELETE FROM picomq_migrations WHERE name = (SELECT max(name) FROM picomq_migrations)")
		require.NoError(t, err)
		before := column(t, db, "SELECT name FROM picomq_migrations")
		var older *migrations.OlderSchemaError
		require.ErrorAs(t, migrations.Check(t.Context(), db), &older)
		assert.NotContains(t, before, older.Needs)
		assert.Equal(t, before, column(t, db, "SELECT name FROM picomq_migrations"))
		_, err = db.ExecContext(t.Context(), "INSERT INTO picomq_migrations (id, name, group_id) VALUES (99, '29990101000000', 9)")
		require.NoError(t, err)
		var newer *migrations.NewerSchemaError
		require.ErrorAs(t, migrations.Check(t.Context(), db), &newer)
	})
}

func TestAnEmptyDatabaseIsCreatedOnlyWithConsent(t *testing.T) {
	eachDialect(t, func(t *testing.T, folder string, db *bun.DB) {
		refusal := errors.New("not here")
		err := migrations.Run(t.Context(), db, func(context.Context) error { return refusal })
		require.ErrorIs(t, err, refusal)
		assert.Empty(t, column(t, db, tables[folder]))
		asked := 0
		agree := func(context.Context) error { asked++; return nil }
		require.NoError(t, migrations.Run(t.Context(), db, agree))
		require.NoError(t, migrations.Run(t.Context(), db, agree))
		assert.Equal(t, 1, asked, "nobody is asked again")
	})
}

// A role that may only use the tables can start on them.
func TestNothingToMigrateNeedsNoRightToMigrate(t *testing.T) {
	d := sqllogtest.Postgres(t)
	require.NoError(t, migrations.Run(t.Context(), bun.NewDB(d.Admin, pgdialect.New()), nil))
	role := d.Role(t, "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA")
	pool, err := sql.Open("pgx", role)
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	require.NoError(t, migrations.Run(t.Context(), bun.NewDB(pool, pgdialect.New()), nil))
}

func TestManyProcessesMigrateAtOnce(t *testing.T) {
	d := sqllogtest.Postgres(t)
	var group errgroup.Group
	for range 6 {
		group.Go(func() error {
			pool, err := sql.Open("pgx", d.URL)
			if err != nil {
				return err
			}
			defer func() { _ = pool.Close() }()
			return migrations.Run(context.Background(), bun.NewDB(pool, pgdialect.New()), nil)
		})
	}
	require.NoError(t, group.Wait())
	assert.Equal(t, "3", d.String(t, "SELECT count(*) FROM picomq_migrations"), "each migration once")
	assert.Equal(t, "0", d.String(t, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND objid = hashtext(current_schema())::oid"))
}

func TestPayloadsAreNotCompressed(t *testing.T) {
	d := sqllogtest.Postgres(t)
	require.NoError(t, migrations.Run(t.Context(), bun.NewDB(d.Admin, pgdialect.New()), nil))
	assert.Equal(t, "e", d.String(t, "SELECT attstorage::text FROM pg_attribute WHERE attrelid = 'command_log'::regclass AND attname = 'payload'"), "e is EXTERNAL")
}

func TestDownRemovesWhatUpMade(t *testing.T) {
	eachDialect(t, func(t *testing.T, folder string, db *bun.DB) {
		require.NoError(t, migrations.Run(t.Context(), db, nil))
		downs, err := filepath.Glob(filepath.Join(folder, "*.tx.down.sql"))
		require.NoError(t, err)
		for i := len(downs) - 1; i >= 0; i-- {
			text, err := os.ReadFile(downs[i])
			require.NoError(t, err)
			_, err = db.ExecContext(t.Context(), string(text))
			require.NoError(t, err)
		}
		assert.Empty(t, column(t, db, tables[folder]))
	})
}

func TestFilesFollowTheRules(t *testing.T) {
	name := regexp.MustCompile(`^\d{14}_[a-z_]+\.tx\.(up|down)\.sql$`)
	versions := make(map[string][]string)
	for _, folder := range []string{"sqlite", "postgres"} {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, entry := range entries {
			assert.Regexp(t, name, entry.Name())
			versions[folder] = append(versions[folder], entry.Name())
			text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
			require.NoError(t, err)
			assert.NotContains(t, string(text), "?", "bun takes it for a placeholder")
		}
	}
	assert.Equal(t, versions["sqlite"], versions["postgres"], "both dialects have the same migrations")
	assert.Zero(t, len(versions["sqlite"])%2, "each has an up and a down")
}
