package sqllog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/picomq/picomq/commands"
)

// insertPostgres appends. Lock and append are sent as one message of the simple
// protocol, with their values in the text: the server runs both in one
// transaction and commits once it has all of the message. In the extended
// protocol a statement runs when Execute arrives and commits when Sync does, and
// the server waits between the two without a limit, holding the lock. EXECUTE
// spares the planning, two thirds of the time.
func insertPostgres(ctx context.Context, l *Log, in *commands.Insert, row commands.RowID) (at commands.Inserted, err error) {
	// Taking the connection first keeps "could not connect" apart from "sent,
	// and then something happened".
	conn, err := l.writer.DB.Conn(ctx)
	if err != nil {
		return at, fmt.Errorf("%w: connect: %w", commands.ErrNotSent, err)
	}
	defer func() { _ = conn.Close() }() // gives it back; nothing is lost with an error
	text := appendText(in, row)
	var results []*pgconn.Result
	var failure error
	err = conn.Raw(func(pgx any) error {
		results, failure = pgx.(*stdlib.Conn).Conn().PgConn().Exec(ctx, text).ReadAll()
		if isUseless(failure) {
			return driver.ErrBadConn // which keeps it from being used again
		}
		return nil
	})
	switch {
	case failure != nil:
		return at, sentError{failure}
	case err != nil:
		return at, fmt.Errorf("%w: use the connection: %w", commands.ErrNotSent, err)
	}
	if len(results) == 0 || len(results[len(results)-1].Rows) == 0 {
		return at, sql.ErrNoRows
	}
	at.Row = row
	answer := results[len(results)-1].Rows[0]
	if len(answer) != 3 {
		return at, fmt.Errorf("an append was answered with %d columns", len(answer))
	}
	var numbers [3]int64
	for i, column := range answer {
		if numbers[i], err = strconv.ParseInt(string(column), 10, 64); err != nil {
			return at, fmt.Errorf("read the answer of an append: %w", err)
		}
	}
	at.Index, at.Previous = commands.Index(numbers[0]), commands.RowID(numbers[1])
	setNumber(&at.DatabaseTime, numbers[2])
	return at, nil
}

// isUseless tells whether a connection will not append any more: it lacks the
// statements that it was given, as when a pooler let another client clean its
// session up, or leads to what has become a standby.
func isUseless(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && (refusal.Code == "26000" || refusal.Code == "25006")
}

// sentError is an error of a message that may have reached the server. What the
// driver says of a connection that breaks while it waits for several answers is
// the same as of one that was closed before.
type sentError struct{ error }

// SafeToRetry is what [pgconn.SafeToRetry] asks.
func (sentError) SafeToRetry() bool { return false }

// Unwrap is the error as it was.
func (e sentError) Unwrap() error { return e.error }

// setNumber sets a number whose type belongs to a package that this one does not
// know.
func setNumber[T ~int64](to *T, value int64) { *to = T(value) }

// appendText is the message that appends.
func appendText(in *commands.Insert, row commands.RowID) string {
	shares := in.Shares()
	text := make([]byte, 0, 2*len(in.Payload)+256+120*len(shares))
	text = append(text, "EXECUTE picomq_lock; EXECUTE picomq_append ("...)
	number := func(n int64) { text = append(strconv.AppendInt(text, n, 10), ", "...) }
	number(int64(row))
	number(int64(in.Origin.Node))
	number(int64(in.Origin.Epoch))
	number(int64(in.Origin.Seq))
	text = append(append(text, literal(in.Summary.Kinds)...), ", "...)
	number(int64(in.Summary.Commands))
	number(int64(in.Summary.Appends))
	number(int64(commands.PayloadDigest(in.Payload)))
	text = append(text, `'\x`...)
	text = hex.AppendEncode(text, in.Payload)
	text = append(text, '\'')
	for _, column := range []func(*commands.Part) int64{
		func(p *commands.Part) int64 { return int64(p.Applied.Index) },
		func(p *commands.Part) int64 { return int64(p.Applied.Row) },
		func(p *commands.Part) int64 { return int64(p.Origin.Node) },
		func(p *commands.Part) int64 { return int64(p.Origin.Epoch) },
		func(p *commands.Part) int64 { return int64(p.Origin.Seq) },
		func(p *commands.Part) int64 { return int64(p.Digest) },
	} {
		text = append(text, ", '{"...)
		for i := range shares {
			if i > 0 {
				text = append(text, ',')
			}
			text = strconv.AppendInt(text, column(&shares[i]), 10)
		}
		text = append(text, "}'"...)
	}
	return string(append(text, ')'))
}
