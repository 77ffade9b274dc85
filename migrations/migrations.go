package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/migrate"
)

//go:embed sqlite/*.sql postgres/*.sql
var files embed.FS

// Names of the tables that bun/migrate keeps.
const (
	appliedTable = "picomq_migrations"
	locksTable   = "picomq_migration_locks" // required by bun, not used: see guard
)

// retryLock is how often a process asks whether another one has finished
// migrating the same Postgres schema.
const retryLock = 50 * time.Millisecond

// NewerSchemaError says that the database was migrated by a newer release.
type NewerSchemaError struct {
	Unknown string // the newest migration in the database
	Known   string // the newest migration in this binary
}

// Error names both versions and what to do.
func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("the database's schema has migration %s, this binary knows them up to %s: run a release at least as new as the one that migrated it", e.Unknown, e.Known)
}

// OlderSchemaError says that the database lacks migrations of this binary.
type OlderSchemaError struct {
	Needs string // the newest migration of this binary
}

// Error names the version and what to do.
func (e *OlderSchemaError) Error() string {
	return fmt.Sprintf("the database's schema is older than migration %s: use the release that wrote it, or let \"picomq serve\" of this one bring it up to date", e.Needs)
}

// Check finds out whether this binary can use the database as it is, and changes
// nothing. Its error is a [*NewerSchemaError] when the database has migrations that
// this binary lacks, an [*OlderSchemaError] the other way round, and another one
// when it has none.
func Check(ctx context.Context, db *bun.DB) error {
	known, err := discover(db.Dialect().Name())
	if err != nil {
		return err
	}
	there, err := hasTables(ctx, db)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("there is no command log in the database, which has no table %s", appliedTable)
	}
	if _, pending, err := compare(ctx, newMigrator(db, known), known); err != nil || !pending {
		return err
	}
	sorted := known.Sorted()
	return &OlderSchemaError{Needs: sorted[len(sorted)-1].Name}
}

// Run applies the migrations that the database lacks; when there are none it
// changes nothing, and needs no right to. On Postgres any number of processes
// may run it at once: an advisory lock, which the server releases when its
// holder dies, lets one through at a time. On SQLite the caller must have the
// file to itself. The database's pool must allow two connections on Postgres.
// The error is a [*NewerSchemaError] when the database is ahead of this binary.
//
// Where nothing was ever migrated, create is asked first, under the lock: its
// error is Run's, and then the database is left as it was. It may be nil.
func Run(ctx context.Context, db *bun.DB, create func(context.Context) error) error {
	known, err := discover(db.Dialect().Name())
	if err != nil {
		return err
	}
	migrator := newMigrator(db, known)
	return guard(ctx, db, func() error {
		there, err := hasTables(ctx, db)
		if err != nil {
			return err
		}
		applied := 0
		if there {
			var pending bool
			if applied, pending, err = compare(ctx, migrator, known); err != nil || !pending {
				return err
			}
		}
		if applied == 0 && create != nil {
			if err := create(ctx); err != nil {
				return err
			}
		}
		return apply(ctx, migrator, there)
	})
}

func newMigrator(db *bun.DB, known *migrate.Migrations) *migrate.Migrator {
	return migrate.NewMigrator(db, known,
		migrate.WithTableName(appliedTable),
		migrate.WithLocksTableName(locksTable),
		// Otherwise a migration counts as applied before it ran, and one that
		// failed is never tried again.
		migrate.WithMarkAppliedOnSuccess(true))
}

// apply runs what is pending. The tables that it is noted in are made first
// where they are missing.
func apply(ctx context.Context, migrator *migrate.Migrator, there bool) error {
	if !there {
		if err := migrator.Init(ctx); err != nil {
			return fmt.Errorf("create the table %s: %w", appliedTable, err)
		}
	}
	if _, err := migrator.Migrate(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// discover reads the embedded migrations of one dialect.
func discover(name dialect.Name) (*migrate.Migrations, error) {
	folder, ok := map[dialect.Name]string{dialect.SQLite: "sqlite", dialect.PG: "postgres"}[name]
	if !ok {
		return nil, fmt.Errorf("no migrations for the SQL dialect %v", name)
	}
	sub, err := fs.Sub(files, folder)
	if err != nil {
		return nil, fmt.Errorf("open the embedded migrations of %s: %w", folder, err)
	}
	found := migrate.NewMigrations()
	if err := found.Discover(sub); err != nil {
		return nil, fmt.Errorf("read the embedded migrations of %s: %w", folder, err)
	}
	return found, nil
}

// hasTables tells whether the tables that migrations are noted in are there.
func hasTables(ctx context.Context, db *bun.DB) (yes bool, err error) {
	query := "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = '" + appliedTable + "')"
	if db.Dialect().Name() == dialect.PG {
		// Only in the schema that tables are created in, not in a later one of
		// the search path.
		query = "SELECT to_regclass(quote_ident(current_schema()) || '." + appliedTable + "') IS NOT NULL"
	}
	if err := db.DB.QueryRowContext(ctx, query).Scan(&yes); err != nil {
		return false, fmt.Errorf("look for the table %s: %w", appliedTable, err)
	}
	return yes, nil
}

// compare counts the applied migrations, tells whether known ones are not among
// them, and refuses a database with unknown ones.
func compare(ctx context.Context, migrator *migrate.Migrator, known *migrate.Migrations) (count int, pending bool, err error) {
	applied, err := migrator.AppliedMigrations(ctx)
	if err != nil {
		return 0, false, fmt.Errorf("read the table %s: %w", appliedTable, err)
	}
	names := make(map[string]bool)
	newest := ""
	for _, m := range known.Sorted() {
		names[m.Name] = true
		newest = max(newest, m.Name)
	}
	unknown := ""
	for _, m := range applied {
		if !names[m.Name] {
			unknown = max(unknown, m.Name)
		}
		delete(names, m.Name)
	}
	if unknown != "" {
		return 0, false, &NewerSchemaError{Unknown: unknown, Known: newest}
	}
	return len(applied), len(names) > 0, nil
}

// guard runs f while no other process migrates the same schema.
//
// bun/migrate's own lock is a table row: it outlives a crash and fails at once
// when taken. An advisory lock waits and dies with its session.
func guard(ctx context.Context, db *bun.DB, f func() error) (err error) {
	if db.Dialect().Name() != dialect.PG {
		return f()
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to migrate: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// The key is the schema's: clusters that share a database do not wait for
	// each other.
	const key = "hashtext('picomq migrations'), hashtext(current_schema())"
	for {
		var got bool
		if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock("+key+")").Scan(&got); err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if got {
			break
		}
		// Not pg_advisory_lock: a statement timeout would end the wait.
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another process that migrates the same schema: %w", ctx.Err())
		case <-time.After(retryLock):
		}
	}
	err = f()
	if _, unlockErr := conn.ExecContext(ctx, "SELECT pg_advisory_unlock("+key+")"); unlockErr != nil {
		err = errors.Join(err, fmt.Errorf("release the migration lock: %w", unlockErr))
	}
	return err
}
