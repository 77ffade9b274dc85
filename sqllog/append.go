package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/picomq/picomq/commands"
)

// Append writes one row behind the last and returns where. It is one statement
// and is not retried here; see the package comment for what its errors mean.
func (l *Log) Append(ctx context.Context, in commands.Insert) (commands.Inserted, error) {
	if n := len(in.Payload); n == 0 || n > commands.MaxPayload {
		return commands.Inserted{}, fmt.Errorf("append %v: a payload of %d bytes; it must have 1 to %d", in.Origin, n, commands.MaxPayload)
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	var at commands.Inserted
	var err error
	if l.prepared != nil {
		at, err = l.insert(ctx, l.writer.DB, l.prepared.QueryContext, in)
	} else {
		at, err = l.insertConnected(ctx, in)
	}
	if err != nil {
		return commands.Inserted{}, fmt.Errorf("append %v: %w", in.Origin, err)
	}
	if l.dialect.exclusive {
		l.wake()
	}
	return at, nil
}

// insertConnected takes a connection first, which keeps "could not connect"
// apart from "sent, and then something happened".
func (l *Log) insertConnected(ctx context.Context, in commands.Insert) (commands.Inserted, error) {
	conn, err := l.writer.DB.Conn(ctx)
	if err != nil {
		return commands.Inserted{}, fmt.Errorf("%w: connect: %w", commands.ErrNotSent, err)
	}
	defer func() { _ = conn.Close() }() // gives it back; nothing is lost with an error
	return l.insert(ctx, conn, func(ctx context.Context, args ...any) (*sql.Rows, error) {
		return conn.QueryContext(ctx, l.dialect.insert, append(slices.Clone(l.dialect.sending), args...)...)
	}, in)
}

// rowQueryer is a connection, or a pool that has one.
type rowQueryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// insert runs the appending statement by send, and asks db why when the
// statement's condition refused the row.
func (l *Log) insert(ctx context.Context, db rowQueryer, send func(ctx context.Context, args ...any) (*sql.Rows, error), in commands.Insert) (commands.Inserted, error) {
	row := newRowID()
	rows, err := send(ctx,
		int64(row), int64(in.Origin.Node), int64(in.Origin.Epoch), int64(in.Origin.Seq),
		in.Summary.Kinds, int64(in.Summary.Commands), int64(in.Summary.Appends),
		int64(commands.PayloadDigest(in.Payload)), in.Payload,
		int64(in.Applied.Index), int64(in.Applied.Row))
	var at commands.Inserted
	if err == nil {
		at, err = scanInserted(rows)
		at.Row = row
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return commands.Inserted{}, l.refusal(ctx, db, in.Applied)
	case err != nil:
		return commands.Inserted{}, l.dialect.classify(err)
	}
	return at, nil
}

// scanInserted reads what the appending statement answered: sql.ErrNoRows when
// its condition refused the row.
func scanInserted(rows *sql.Rows) (at commands.Inserted, err error) {
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
	return at, nil
}

// refusal says why the statement's condition did not hold: the proposer's last
// applied row is not there.
func (l *Log) refusal(ctx context.Context, db rowQueryer, applied commands.Position) error {
	lost := &commands.LostTailError{Applied: applied}
	var truncated commands.Position
	const query = `SELECT h.idx, h.row_id, coalesce(c.row_id, 0), a.truncated_idx, a.truncated_row_id
FROM log_head AS h JOIN log_archive AS a ON a.log = h.log
LEFT JOIN command_log AS c ON c.log = h.log AND c.idx = $1
WHERE h.log = 0`
	err := db.QueryRowContext(ctx, query, l.args(int64(applied.Index))...).
		Scan(&lost.Head.Index, &lost.Head.Row, &lost.Found, &truncated.Index, &truncated.Row)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return errNoHead
	case err != nil:
		return fmt.Errorf("%w: it was refused, and asking why failed: %w", commands.ErrNotSent, err)
	case applied.Index < truncated.Index:
		return &commands.TruncatedError{After: applied.Index, First: truncated.Index + 1}
	case applied.Index == truncated.Index:
		lost.Found = truncated.Row
	}
	if lost.Found == applied.Row {
		// The row is there after all: the refusal was by something else that
		// changed since, such as a restore under way.
		return fmt.Errorf("%w: it was refused while the log was changed by hand", commands.ErrNotSent)
	}
	return lost
}

var errNoHead = fmt.Errorf("%w: the table log_head has no row for log 0, or log_archive has none; restore the database", commands.ErrDamaged)

// FindOrigin looks up the row that an origin came to stand in, with the digest
// of its payload (see [commands.PayloadDigest]) as it was inserted. The row is
// after applied, the last that the proposer had applied when it first proposed.
// Not found means that no such row stands, which is only known when nothing
// after applied was truncated: otherwise the error is [commands.ErrTruncated].
func (l *Log) FindOrigin(ctx context.Context, o commands.Origin, applied commands.Index) (at commands.Inserted, digest uint64, found bool, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	const query = `SELECT a.truncated_idx, coalesce(c.idx, 0), coalesce(c.row_id, 0), coalesce(c.previous_row_id, 0), coalesce(c.db_time_ms, 0), coalesce(c.digest, 0)
FROM log_archive AS a
LEFT JOIN origins AS o ON o.log = a.log AND o.node = $1 AND o.epoch = $2 AND o.seq = $3
LEFT JOIN command_log AS c ON c.log = o.log AND c.idx = o.idx
WHERE a.log = 0`
	var signed int64
	var truncated commands.Index
	err = l.writer.DB.QueryRowContext(ctx, query, l.args(int64(o.Node), int64(o.Epoch), int64(o.Seq))...).
		Scan(&truncated, &at.Index, &at.Row, &at.Previous, &at.DatabaseTime, &signed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = errNoHead
	case err == nil && at.Index == 0 && truncated > applied:
		err = &commands.TruncatedError{After: applied, First: truncated + 1}
	}
	if err != nil {
		return commands.Inserted{}, 0, false, fmt.Errorf("find origin %v: %w", o, err)
	}
	return at, uint64(signed), at.Index != 0, nil
}

// newRowID is random and not 0. Two rows with one id would need 2^32 rows at
// one index.
func newRowID() commands.RowID {
	for {
		if id := commands.RowID(rand.Uint64()); id != 0 {
			return id
		}
	}
}
