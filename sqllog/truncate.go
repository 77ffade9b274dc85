package sqllog

import (
	"context"
	"errors"
	"fmt"

	"github.com/picomq/picomq/commands"
)

const (
	// truncateBytes is the most payload that one Truncate drops, unless a row
	// alone has more: deleting takes well below [ServerTimeout], and on SQLite,
	// where it has the only writing connection, some milliseconds.
	truncateBytes = 4 << 20
	// shrinkPages is how many free pages one Truncate gives back on SQLite.
	shrinkPages = 1024
)

// truncateBatch are the rows that one statement drops: %s is the dialect's least
// of several values. The parameters are upTo, the most rows, the most bytes.
const truncateBatch = `FROM (
        SELECT a.truncated_idx AS after, b.idx, length(b.payload) AS bytes,
            sum(length(b.payload)) OVER (ORDER BY b.idx ROWS UNBOUNDED PRECEDING) AS total
        FROM log_archive AS a JOIN command_log AS b
            ON b.log = a.log AND b.idx > a.truncated_idx AND b.idx <= %s($1, a.idx, a.truncated_idx + $2)
        WHERE a.log = 0
    ) AS sized
    WHERE total <= $3 OR total = bytes`

// The boundary moves first, under the lock of its row and only as far as is
// archived; what is deleted follows from where it moved to. The lock of appends
// is not taken: they do not wait.
//
// However long the tables are, and whatever the planner knows of them, only the
// rows in question are looked at: both indexes are entered at the boundary,
// behind the entries of rows deleted before.
var postgresTruncate = `WITH batch AS (
    SELECT min(after) AS after, max(idx) AS idx ` + fmt.Sprintf(truncateBatch, "least") + `
), moved AS (
    UPDATE log_archive AS a SET truncated_idx = c.idx, truncated_row_id = c.row_id
    FROM batch JOIN command_log AS c ON c.log = 0 AND c.idx = batch.idx
    WHERE a.log = 0 AND c.idx <= a.idx AND c.idx > a.truncated_idx
    RETURNING batch.after, c.idx
), gone AS (
    DELETE FROM command_log AS c USING moved WHERE c.log = 0 AND c.idx > moved.after AND c.idx <= moved.idx
)
DELETE FROM origins AS o USING moved WHERE o.log = 0 AND o.idx > moved.after AND o.idx <= moved.idx`

// The trigger log_archive_truncated deletes, within the same statement.
var sqliteTruncate = `UPDATE log_archive SET truncated_idx = c.idx, truncated_row_id = c.row_id
FROM command_log AS c
WHERE log_archive.log = 0 AND c.log = 0 AND c.idx <= log_archive.idx AND c.idx > log_archive.truncated_idx AND c.idx = (
    SELECT max(idx) ` + fmt.Sprintf(truncateBatch, "min") + `)`

// Truncate drops rows and their origins from the front of the log, in one short
// statement: those at or before upTo, but at most limit (at least 1) and some
// megabytes of them, and none that is not archived; the statement itself sees
// to that. The answer says how far the log is truncated now; calling it again
// goes on. Anyone may call it at any time: what one call drops another does
// not.
func (l *Log) Truncate(ctx context.Context, upTo commands.Index, limit int) (commands.Archive, error) {
	a, err := l.changeArchive(ctx, "truncate the log", l.dialect.truncate, int64(upTo), int64(max(limit, 1)), int64(truncateBytes))
	if err != nil || !l.dialect.exclusive {
		return a, err // Postgres gives pages back, or uses them again, by autovacuum
	}
	if err := l.shrinkSQLite(ctx); err != nil {
		return a, fmt.Errorf("give free pages of the log's file back: %w", err)
	}
	return a, nil
}

// shrinkSQLite gives some pages back to the file system when more than half of
// the file is free. Under a steady load the freed pages are used again and
// giving them back would only move others around; but a file that grew while
// the bucket was out of reach must not stay so large.
func (l *Log) shrinkSQLite(ctx context.Context) (err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	var free, all int64
	const query = "SELECT freelist_count, page_count FROM pragma_freelist_count, pragma_page_count"
	if err := l.writer.DB.QueryRowContext(ctx, query).Scan(&free, &all); err != nil {
		return err
	}
	if free < shrinkPages || free < all/2 {
		return nil
	}
	// It gives back a page each step, so it must be read to the end.
	rows, err := l.writer.DB.QueryContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		continue
	}
	return rows.Err()
}
