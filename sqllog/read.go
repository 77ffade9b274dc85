package sqllog

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/picomq/picomq/commands"
)

// readRows is the most rows that one Read returns.
const readRows = 1 << 20

// Sizes are summed inside the database, so that no more than maxBytes travel
// (or one row, when it alone is larger). length() of a stored payload does not
// read it, on either database. The range is cut by index before the sum: a
// LIMIT around it would sum the whole rest of the log each time.
//
// Where the log begins comes with the rows, of one moment, also when there are
// none: the answer then has one row, of index 0. They come in the order of the
// index, but no database knows that of a join, and would sort the payloads too:
// whoever reads puts them in order.
const readQuery = `SELECT a.truncated_idx, a.truncated_row_id, coalesce(c.idx, 0), coalesce(c.row_id, 0), coalesce(c.previous_row_id, 0),
    coalesce(c.db_time_ms, 0), coalesce(c.node, 0), coalesce(c.epoch, 0), coalesce(c.origin_seq, 0),
    coalesce(c.kinds, ''), coalesce(c.commands, 0), coalesce(c.appends, 0), coalesce(c.digest, 0), c.payload
FROM log_archive AS a LEFT JOIN command_log AS c ON c.log = a.log AND c.idx > $1 AND c.idx <= (
    SELECT max(idx) FROM (
        SELECT idx, length(payload) AS bytes, sum(length(payload)) OVER (ORDER BY idx ROWS UNBOUNDED PRECEDING) AS total
        FROM command_log WHERE log = 0 AND idx > $1 AND idx <= $1 + $2
    ) AS sized
    WHERE total <= $3 OR total = bytes)
WHERE a.log = 0`

// Read returns the rows that follow an index, without a gap: at most maxRows
// (1 to 1<<20; others are taken for the nearest), and as many as have maxBytes
// of payload together, but at least one when one exists. No rows means that the
// log ends at or before after. Rows that were truncated are not there to be
// read: [commands.ErrTruncated]. The chain between the rows, the first kept
// one's to the last truncated one included, and their payloads are verified:
// [commands.ErrDamaged].
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
	whole := false // log_archive has its row
	for rows.Next() {
		row, truncated, err := scanRow(rows)
		whole = true
		switch {
		case err != nil:
			return nil, err
		case truncated.Index > after:
			return nil, &commands.TruncatedError{After: after, First: truncated.Index + 1}
		case truncated.Index == after:
			last.Row = truncated.Row
		}
		if row.Index != 0 {
			list = append(list, row)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if !whole {
		return nil, errNoHead
	}
	return list, checkChain(list, last)
}

// scanRow reads one row of readQuery and checks its payload.
func scanRow(rows *sql.Rows) (row commands.Row, truncated commands.Position, err error) {
	var digest int64
	if err := rows.Scan(&truncated.Index, &truncated.Row, &row.Index, &row.ID, &row.Previous,
		&row.DatabaseTime, &row.Origin.Node, &row.Origin.Epoch, &row.Origin.Seq,
		&row.Summary.Kinds, &row.Summary.Commands, &row.Summary.Appends, &digest, &row.Payload); err != nil {
		return row, truncated, err
	}
	if row.Index != 0 && commands.PayloadDigest(row.Payload) != uint64(digest) {
		return row, truncated, fmt.Errorf("%w: the payload of row %d does not match its digest", commands.ErrDamaged, row.Index)
	}
	return row, truncated, nil
}

// checkChain puts rows in order and checks that each follows the one before;
// the row id of what is before the first is 0 when it was not read.
func checkChain(list []commands.Row, before commands.Position) error {
	slices.SortFunc(list, func(a, b commands.Row) int { return cmp.Compare(a.Index, b.Index) })
	for _, row := range list {
		switch {
		case row.Index != before.Index+1:
			return fmt.Errorf("%w: row %d follows row %d", commands.ErrDamaged, row.Index, before.Index)
		case before.Row != 0 && row.Previous != before.Row:
			return fmt.Errorf("%w: row %d names %016x as its predecessor, which is %v", commands.ErrDamaged, row.Index, uint64(row.Previous), before)
		}
		before = row.Position()
	}
	return nil
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

// RowCount is how many rows the log holds, by where it begins and ends: cheap
// however long it is.
func (l *Log) RowCount(ctx context.Context) (int64, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	const query = "SELECT h.idx - a.truncated_idx FROM log_head AS h JOIN log_archive AS a ON a.log = h.log WHERE h.log = 0"
	var n int64
	if err := l.reader.DB.QueryRowContext(ctx, query, l.args()...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the log's rows: %w", err)
	}
	return n, nil
}
