package client

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// Position is where a read begins. The zero value is [Start]. Positions are
// comparable; [Position.String] prints them for people and logs.
type Position struct {
	kind  positionKind
	n     uint64 // offset, records, or milliseconds
	token string // of Durable Streams
}

type positionKind uint8

const (
	fromStart positionKind = iota
	fromOffset
	fromToken
	fromTail
	fromTime
)

// Start is the first record that is retained.
func Start() Position { return Position{} }

// At is an offset, exactly.
func At(o stream.Offset) Position { return Position{kind: fromOffset, n: uint64(o)} }

// Now is the tail: only what comes later.
func Now() Position { return Back(0) }

// Back is n records before the tail, or [Start] when there are fewer.
func Back(n uint64) Position { return Position{kind: fromTail, n: n} }

// Since is the first record at or after a time. Durable Streams has none.
func Since(t stream.Time) Position { return Position{kind: fromTime, n: uint64(t)} }

// Token is a position as Durable Streams spells it, and as [Position.String]
// printed it.
func Token(token string) Position { return Position{kind: fromToken, token: token} }

// Offset is the position as a number of records, when it is one: every
// position of Pico that an answer carried, and those of Durable Streams that a
// PicoMQ server gave.
func (p Position) Offset() (o stream.Offset, known bool) {
	switch p.kind {
	case fromOffset:
		return stream.Offset(p.n), true
	case fromToken:
		o, err := wire.ParseToken(p.token)
		return o, err == nil && o <= stream.MaxOffset
	default:
		return 0, false
	}
}

// String is the number, the token, "start", "now", "-n" or "time ms".
func (p Position) String() string {
	switch p.kind {
	case fromOffset:
		return strconv.FormatUint(p.n, 10)
	case fromToken:
		return p.token
	case fromTail:
		if p.n == 0 {
			return "now"
		}
		return "-" + strconv.FormatUint(p.n, 10)
	case fromTime:
		return "time " + strconv.FormatInt(int64(p.n), 10)
	default:
		return "start"
	}
}

// setPico writes the position into a query of the Pico protocol.
func (p Position) setPico(query url.Values) error {
	switch p.kind {
	case fromToken:
		o, known := p.Offset()
		if !known {
			return notPico(p)
		}
		query.Set("seq", strconv.FormatUint(uint64(o), 10))
	case fromTime:
		query.Set("timestamp", strconv.FormatInt(int64(p.n), 10))
	case fromStart: // the server's default
	default:
		query.Set("seq", p.String())
	}
	return nil
}

// retainedStart is where a read from [Start] begins on a server that took the
// start to be the first record there ever was, and refused because that is
// trimmed away: the refusal names the first one retained.
func retainedStart(from Position, err error) (retained Position, found bool) {
	var refused *stream.Error
	if from != Start() || !errors.As(err, &refused) || refused.Code != stream.CodeTrimmed || refused.Start == 0 {
		return from, false
	}
	return At(refused.Start), true
}

func notPico(p Position) error {
	return stream.Errorf(stream.CodeUnsupported, "the position %q is a token of another server; Pico needs a number", p.token)
}

// setDurable writes the position into a query of Durable Streams.
func (p Position) setDurable(query url.Values) error {
	switch {
	case p.kind == fromStart:
		query.Set("offset", "-1")
	case p == Now():
		query.Set("offset", "now")
	case p.kind == fromToken, p.kind == fromOffset:
		query.Set("offset", p.durable())
	default:
		return stream.Errorf(stream.CodeUnsupported, "Durable Streams cannot read from %q; use the Pico protocol", p.String())
	}
	return nil
}

// durable is a token, or an offset as PicoMQ's token.
func (p Position) durable() string {
	if p.kind == fromToken {
		return p.token
	}
	return wire.FormatToken(stream.Offset(min(p.n, uint64(stream.MaxOffset))))
}

// resolve replaces positions that a second request would understand otherwise
// than the first, or that the protocol cannot express, by asking for the tail.
func (c *Client) resolve(ctx context.Context, name stream.Name, p Position) (Position, error) {
	durable := c.options.Protocol == DurableStreams
	if p.kind != fromTail || (p.n > 0 && !durable) {
		return p, nil
	}
	info, err := c.Head(ctx, name)
	if err != nil || p.n == 0 {
		return info.Next, err
	}
	tail, known := info.Next.Offset()
	if !known {
		return p, notCounted(info.Next)
	}
	if uint64(tail) <= p.n {
		return Start(), nil
	}
	return At(tail - stream.Offset(p.n)), nil
}

func notCounted(tail Position) error {
	return stream.Errorf(stream.CodeUnsupported,
		"the server's offset %q cannot be counted back from; take the start, now, or an offset it gave", tail)
}
