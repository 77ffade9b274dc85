package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"

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
	at, err := l.dialect.insert(ctx, l, &in, newRowID())
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return commands.Inserted{}, fmt.Errorf("append %v: %w", in.Origin, l.refusal(ctx, in.Shares()))
	case errors.Is(err, commands.ErrNotSent):
		return commands.Inserted{}, fmt.Errorf("append %v: %w", in.Origin, err)
	case err != nil:
		return commands.Inserted{}, fmt.Errorf("append %v: %w", in.Origin, l.dialect.classify(err))
	}
	if l.dialect.exclusive {
		l.wake()
	}
	return at, nil
}

// refusal says why the statement's condition did not hold: the last row that a
// proposer applied is not there.
func (l *Log) refusal(ctx context.Context, shares []commands.Part) error {
	for _, share := range shares {
		if err := l.refusalOf(ctx, share.Applied); err != nil {
			return err
		}
	}
	// The rows are there after all: the refusal was by something else that
	// changed since, such as a restore under way.
	return fmt.Errorf("%w: it was refused while the log was changed by hand", commands.ErrNotSent)
}

// refusalOf is nil when the log has the row.
func (l *Log) refusalOf(ctx context.Context, applied commands.Position) error {
	lost := &commands.LostTailError{Applied: applied}
	var truncated commands.Position
	const query = `SELECT h.idx, h.row_id, coalesce(c.row_id, 0), a.truncated_idx, a.truncated_row_id
FROM log_head AS h JOIN log_archive AS a ON a.log = h.log
LEFT JOIN command_log AS c ON c.log = h.log AND c.idx = $1
WHERE h.log = 0`
	err := l.writer.DB.QueryRowContext(ctx, query, l.args(int64(applied.Index))...).
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
		return nil
	}
	return lost
}

var errNoHead = fmt.Errorf("%w: log_head has no row for log 0, or log_archive has none; restore the database", commands.ErrDamaged)

// FindOrigin looks up the row that an origin came to stand in, with the digest
// of what its node asked to insert (see [commands.Part]). The row is
// after applied, the last that the proposer had applied when it first proposed.
// Not found means that no such row stands, which is only known when nothing
// after applied was truncated: otherwise the error is [commands.ErrTruncated].
func (l *Log) FindOrigin(ctx context.Context, o commands.Origin, applied commands.Index) (at commands.Inserted, digest uint64, found bool, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	query := `SELECT a.truncated_idx, coalesce(c.idx, 0), coalesce(c.row_id, 0), coalesce(c.previous_row_id, 0), coalesce(c.db_time_ms, 0), ` + l.dialect.originDigest + `
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
