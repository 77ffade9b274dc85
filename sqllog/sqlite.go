package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/migrations"
)

// ReaderPoolSize is how many connections read a SQLite log.
const ReaderPoolSize = 4

// sqliteInsert appends; the trigger command_log_appended advances log_head and
// records the origin within the same statement.
const sqliteInsert = `INSERT INTO command_log (log, idx, row_id, previous_row_id, db_time_ms, node, epoch, origin_seq, kinds, commands, appends, digest, payload)
SELECT h.log, h.idx + 1, $1, h.row_id, ` + sqliteNow + `, $2, $3, $4, $5, $6, $7, $8, $9
FROM log_head AS h
WHERE h.log = 0 AND (EXISTS (SELECT 1 FROM command_log AS c WHERE c.log = 0 AND c.idx = $10 AND c.row_id = $11)
    OR EXISTS (SELECT 1 FROM log_archive AS a WHERE a.log = 0 AND a.truncated_idx = $10 AND a.truncated_row_id = $11))
RETURNING idx, previous_row_id, db_time_ms`

// insertSQLite runs the appending statement.
func insertSQLite(ctx context.Context, l *Log, in *commands.Insert, row commands.RowID) (at commands.Inserted, err error) {
	if len(in.Parts) > 0 {
		return at, errors.New("a SQLite log has one node: nobody inserts for others")
	}
	if err := ctx.Err(); err != nil {
		return at, err
	}
	// From here on nothing ends it early: what takes long is the disk, which cannot
	// be interrupted, and a file that is busy says so by itself. To look out for the
	// end of ctx all the same would cost each row two goroutines.
	rows, err := l.prepared.QueryContext(context.WithoutCancel(ctx),
		int64(row), int64(in.Origin.Node), int64(in.Origin.Epoch), int64(in.Origin.Seq),
		in.Summary.Kinds, int64(in.Summary.Commands), int64(in.Summary.Appends),
		int64(commands.PayloadDigest(in.Payload)), in.Payload,
		int64(in.Applied.Index), int64(in.Applied.Row))
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found := false
	// To the end, not just the one row: SQLite commits in the step after it,
	// and that is where a full disk shows.
	for rows.Next() {
		found = true
		if err := rows.Scan(&at.Index, &at.Previous, &at.DatabaseTime); err != nil {
			return at, err
		}
	}
	if err := rows.Err(); err != nil {
		return at, err
	}
	if !found {
		return at, sql.ErrNoRows
	}
	at.Row = row
	return at, nil
}

// Rounded, because the seconds are a float: 0.123 s may print 122.99999 ms.
const sqliteNow = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)"

// openSQLite opens the log in the file that the URL's part after the scheme
// names.
func openSQLite(ctx context.Context, name string, options Options) (l *Log, err error) {
	path, err := sqlitePath(name, !options.ReadOnly)
	if err != nil {
		return nil, err
	}
	l = newLog(dialect{exclusive: true, insert: insertSQLite, originDigest: "coalesce(c.digest, 0)", truncate: sqliteTruncate, now: sqliteNow, classify: classifySQLite}, options)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
			l = nil
		}
	}()
	lock, err := lockFile(path)
	if err != nil {
		return l, err
	}
	l.onClose(lock.Unlock)
	if options.ReadOnly {
		return l, l.onlyRead(ctx, path)
	}
	if l.writer, err = l.sqlitePool(path, "rwc", 1, readWrite...); err != nil {
		return l, err
	}
	if err := checkSQLite(ctx, l.writer); err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	if err := migrations.Run(ctx, l.writer, options.Create); err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	if err := syncNames(path); err != nil {
		return l, err
	}
	if err := l.prepareInsert(ctx, path); err != nil {
		return l, err
	}
	l.reader, err = l.sqlitePool(path, "rwc", ReaderPoolSize, append([]string{"query_only(1)"}, readWrite...)...)
	return l, err
}

// onlyRead opens a file that is there. Nothing but reading works then.
func (l *Log) onlyRead(ctx context.Context, path string) (err error) {
	if l.reader, err = l.sqlitePool(path, "ro", ReaderPoolSize); err != nil {
		return err
	}
	l.writer = l.reader
	if err := migrations.Check(ctx, l.reader); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return l.prepareInsert(ctx, path) // which then fails when it is run
}

func (l *Log) prepareInsert(ctx context.Context, path string) (err error) {
	if l.prepared, err = l.writer.DB.PrepareContext(ctx, sqliteInsert); err != nil {
		return fmt.Errorf("%s: prepare the appending statement: %w", path, err)
	}
	l.onClose(l.prepared.Close)
	return nil
}

// sqlitePath is the absolute path that a URL names, with links resolved, so
// that a file has one lock by whatever name it is opened. The folder is
// created when it is missing, if asked for.
func sqlitePath(name string, create bool) (string, error) {
	if name == "" || strings.HasSuffix(name, "/") || name == ":memory:" {
		return "", fmt.Errorf("sqlite://%s names no file: write sqlite://PATH", name)
	}
	if strings.ContainsAny(name, "?#") {
		return "", fmt.Errorf("sqlite://%s: options are not allowed after the path", name)
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("sqlite://%s: %w", name, err)
	}
	if create {
		if err := createFolder(filepath.Dir(path)); err != nil {
			return "", fmt.Errorf("sqlite://%s: %w", name, err)
		}
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved, nil
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("sqlite://%s: %w", name, err)
	}
	return filepath.Join(folder, filepath.Base(path)), nil
}

// createFolder creates what is missing of a path and makes it durable.
func createFolder(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	parent := filepath.Dir(path)
	if err := createFolder(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncFolder(parent)
}

// syncNames makes durable that a file is there. SQLite syncs the content of its
// files; their names are in the folder, and the folder's in its parent: whoever
// made the folder may have died before it synced that. A parent that may not be
// read was made by somebody else, long ago.
func syncNames(path string) error {
	folder := filepath.Dir(path)
	if err := syncFolder(filepath.Dir(folder)); err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return syncFolder(folder)
}

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// lockFile takes the file for this process. The lock file stays behind when it
// is released: removing it would let two processes lock two files of one name.
func lockFile(path string) (*flock.Flock, error) {
	name := path + ".lock"
	lock := flock.New(name)
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	if !got {
		holder := "another process"
		if pid, err := os.ReadFile(name); err == nil && len(pid) > 0 {
			holder = "process " + strings.TrimSpace(string(pid))
		}
		return nil, fmt.Errorf("%s is in use by %s, which holds %s: stop it first, or give this node a file of its own", path, holder, name)
	}
	// For the message above only; the lock holds without it.
	if err := os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", name, err), lock.Unlock())
	}
	return lock, nil
}

// readWrite are the settings of connections to a file that may be written to.
var readWrite = []string{
	// Before the first page is written, or it is ignored: see shrinkSQLite.
	"auto_vacuum(INCREMENTAL)",
	"journal_mode(WAL)",
	"synchronous(FULL)",
	// Beyond the disk's cache on macOS; ignored elsewhere.
	"fullfsync(1)",
	"checkpoint_fullfsync(1)",
}

// sqlitePool opens connections to the file, in a mode of SQLite's, and has them
// closed with the log.
func (l *Log) sqlitePool(path, mode string, size int, pragmas ...string) (*bun.DB, error) {
	// Less than a call's own time, so that a file that is busy answers so, which
	// says that nothing was written, and is not interrupted, which does not.
	busy := l.timeout * 2 / 3
	query := url.Values{
		"_pragma": append([]string{"busy_timeout(" + strconv.FormatInt(busy.Milliseconds(), 10) + ")"}, pragmas...),
		"_txlock": {"immediate"},
		"mode":    {mode},
	}
	pool, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+query.Encode())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	db := bun.NewDB(pool, sqlitedialect.New())
	l.onClose(db.Close)
	return db, nil
}

// checkSQLite verifies that the settings which make commits durable are in
// force: a file system without shared memory, for one, leaves WAL mode off.
func checkSQLite(ctx context.Context, db *bun.DB) error {
	for _, want := range []struct{ pragma, value string }{{"journal_mode", "wal"}, {"synchronous", "2"}} {
		var got string
		if err := db.DB.QueryRowContext(ctx, "PRAGMA "+want.pragma).Scan(&got); err != nil {
			return fmt.Errorf("ask for %s: %w", want.pragma, err)
		}
		if got != want.value {
			return fmt.Errorf("SQLite answers %s=%s where %s is needed: put the file on a local disk", want.pragma, got, want.value)
		}
	}
	return nil
}

// classifySQLite says what an error of the appending statement means.
func classifySQLite(err error) error {
	var failure *sqlite.Error
	if !errors.As(err, &failure) {
		return fmt.Errorf("%w: %w", commands.ErrUnknown, err)
	}
	switch failure.Code() & 0xff { // the low byte of an extended code is the code
	case sqlite3.SQLITE_CONSTRAINT:
		if strings.Contains(failure.Error(), "origins.") {
			return fmt.Errorf("%w: %w", commands.ErrDuplicateOrigin, err)
		}
		return err
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return fmt.Errorf("%w: %w", commands.ErrNotSent, err)
	default:
		return fmt.Errorf("%w: %w", commands.ErrUnknown, err)
	}
}
