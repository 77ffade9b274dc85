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

// Run applies the migrations that the database lacks; when there are none it
// changes nothing. On Postgres any number of processes may run it at once: an
// advisory lock, which the server releases when its holder dies, lets one
// through at a time. On SQLite the caller must have the file to itself. The
// database's pool must allow two connections on Postgres. The error is a
// [*NewerSchemaError] when the database is ahead of this binary.
func Run(ctx context.Context, db *bun.DB) error {
	known, err := discover(db.Dialect().Name())
	if err != nil {
		return err
	}
	migrator := migrate.NewMigrator(db, known,
		migrate.WithTableName(appliedTable),
		migrate.WithLocksTableName(locksTable),
		// Otherwise a migration counts as applied before it ran, and one that
		// failed is never tried again.
		migrate.WithMarkAppliedOnSuccess(true))
	return guard(ctx, db, func() error {
		if err := migrator.Init(ctx); err != nil {
			return fmt.Errorf("create the table %s: %w", appliedTable, err)
		}
		if err := refuseNewer(ctx, migrator, known); err != nil {
			return err
		}
		if _, err := migrator.Migrate(ctx); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		return nil
	})
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

// refuseNewer compares what is applied with what is known.
func refuseNewer(ctx context.Context, migrator *migrate.Migrator, known *migrate.Migrations) error {
	applied, err := migrator.AppliedMigrations(ctx)
	if err != nil {
		return fmt.Errorf("read the table %s: %w", appliedTable, err)
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
	}
	if unknown != "" {
		return &NewerSchemaError{Unknown: unknown, Known: newest}
	}
	return nil
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
		// Not pg_advisory_lock: the statement timeout would end the wait.
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
