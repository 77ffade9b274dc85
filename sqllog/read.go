package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/picomq/picomq/commands"
)

// readRows is the most rows that one Read returns.
const readRows = 1 << 20

// Sizes are summed inside the database, so that no more than maxBytes travel
// (or one row, when it alone is larger). length() of a stored payload does not
// read it, on either database. The range is cut by index before the sum: a
// LIMIT around it would sum the whole rest of the log each time.
const readQuery = `SELECT idx, row_id, previous_row_id, db_time_ms, digest, payload FROM command_log
WHERE log = 0 AND idx > $1 AND idx <= (
    SELECT max(idx) FROM (
        SELECT idx, length(payload) AS bytes, sum(length(payload)) OVER (ORDER BY idx ROWS UNBOUNDED PRECEDING) AS total
        FROM command_log WHERE log = 0 AND idx > $1 AND idx <= $1 + $2
    ) AS sized
    WHERE total <= $3 OR total = bytes)
ORDER BY idx`

// Read returns the rows that follow an index, without a gap: at most maxRows
// (1 to 1<<20; others are taken for the nearest), and as many as have maxBytes
// of payload together, but at least one when one exists. No rows means that the log ends at or before after. The
// chain between the rows and their payloads are verified: [commands.ErrDamaged].
func (l *Log) Read(ctx context.Context, after commands.Index, maxRows, maxBytes int) (list []commands.Row, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	defer func() {
		if err != nil {
			list, err = nil, fmt.Errorf("read the log after %d: %w", after, err)
		}
	}()
	rows, err := l.reader.DB.QueryContext(ctx, readQuery, l.args(int64(after), int64(min(max(maxRows, 1), readRows)), int64(maxBytes))...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	last := commands.Position{Index: after}
	for rows.Next() {
		row, err := scanRow(rows, last)
		if err != nil {
			return nil, err
		}
		last = row.Position()
		list = append(list, row)
	}
	return list, rows.Err()
}

// scanRow reads one row and checks it against the one before, whose row id is 0
// when it was not read.
func scanRow(rows *sql.Rows, before commands.Position) (commands.Row, error) {
	var row commands.Row
	var digest int64
	if err := rows.Scan(&row.Index, &row.ID, &row.Previous, &row.DatabaseTime, &digest, &row.Payload); err != nil {
		return row, err
	}
	switch {
	case row.Index != before.Index+1:
		return row, fmt.Errorf("%w: row %d follows row %d", commands.ErrDamaged, row.Index, before.Index)
	case before.Row != 0 && row.Previous != before.Row:
		return row, fmt.Errorf("%w: row %d names %016x as its predecessor, which is %v", commands.ErrDamaged, row.Index, uint64(row.Previous), before)
	case commands.PayloadDigest(row.Payload) != uint64(digest):
		return row, fmt.Errorf("%w: the payload of row %d does not match its digest", commands.ErrDamaged, row.Index)
	}
	return row, nil
}

// Head is the last row's place, or the zero Position when the log is empty. A
// row that Append acknowledged before the call, anywhere, is at or before it.
func (l *Log) Head(ctx context.Context) (commands.Position, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	var head commands.Position
	err := l.reader.DB.QueryRowContext(ctx, "SELECT idx, row_id FROM log_head WHERE log = 0", l.args()...).Scan(&head.Index, &head.Row)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoHead
	}
	if err != nil {
		return commands.Position{}, fmt.Errorf("read the log's head: %w", err)
	}
	return head, nil
}

// RowCount is how many rows the log holds, by its first and last index: cheap
// however long it is.
func (l *Log) RowCount(ctx context.Context) (int64, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	const query = `SELECT h.idx - coalesce((SELECT min(idx) FROM command_log WHERE log = 0), h.idx + 1) + 1
FROM log_head AS h WHERE h.log = 0`
	var n int64
	if err := l.reader.DB.QueryRowContext(ctx, query, l.args()...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the log's rows: %w", err)
	}
	return n, nil
}
