package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// ForkRequest asks that a new stream begins with another's records. They keep
// their offsets, times and headers, and nothing is copied: afterwards neither
// stream sees what happens to the other.
type ForkRequest struct {
	From stream.Name
	// At is where the stream's own records begin: the others are those below it.
	// nil means the tail, as [Now] does. What [Back] and [Start] mean is asked of the
	// server first, so that calling again later may ask for another fork. [Since] is
	// no place for one, nor is [Start] with Durable Streams, which does not tell it.
	At *Position
	// Sub goes beyond At, which it needs: that many bytes of the record there, or
	// messages of a JSON stream. Pico has none.
	Sub uint64
}

// Fork says how a stream began with a part of another's records.
type Fork struct {
	From stream.Name   // the other's name when the fork was made
	At   stream.Offset // the records below are the other's
	Sub  uint64        // bytes of the record at At, or messages of a JSON stream, that it has too
}

// setFork writes the fork into a request that creates. The offset is resolved
// before, so that every try of the request means the same.
func (c *Client) setFork(ctx context.Context, r *request, f *ForkRequest) error {
	if _, err := c.newRequest(http.MethodHead, f.From); err != nil {
		return err
	}
	r.parent = f.From
	at := Now()
	if f.At != nil {
		at = *f.At
	}
	if at != Now() {
		var err error
		if at, err = c.resolveFork(ctx, f.From, at); err != nil {
			return err
		}
	}
	if c.options.Protocol == DurableStreams {
		return setDurableFork(r.header, f, at)
	}
	return setPicoFork(r.header, f, at)
}

// resolveFork is an offset, or a token that only the server can read.
func (c *Client) resolveFork(ctx context.Context, from stream.Name, at Position) (Position, error) {
	if _, known := at.Offset(); known || at.kind == fromToken {
		return at, nil
	}
	if at.kind == fromTime {
		return at, stream.Errorf(stream.CodeUnsupported, "a fork begins at an offset, not at a time; read one record from there to find its offset")
	}
	if at == Start() && c.options.Protocol == DurableStreams {
		return at, stream.Errorf(stream.CodeUnsupported, "Durable Streams does not tell where a stream starts; use the Pico protocol, or an offset")
	}
	info, err := c.Head(ctx, from)
	if err != nil {
		return at, err
	}
	if at == Start() {
		return At(info.Start), nil
	}
	tail, known := info.Next.Offset()
	if !known {
		return at, notCounted(info.Next)
	}
	return At(max(info.Start, tail-stream.Offset(min(at.n, uint64(tail))))), nil
}

func setPicoFork(h http.Header, f *ForkRequest, at Position) error {
	if f.Sub > 0 {
		return stream.Errorf(stream.CodeUnsupported, "the Pico protocol forks between records only; use Durable Streams for a sub-offset")
	}
	h.Set(wire.PicoForkedFrom, escaped("/", f.From))
	if at == Now() {
		return nil
	}
	o, known := at.Offset()
	if !known {
		return notPico(at)
	}
	h.Set(wire.PicoForkSeq, strconv.FormatUint(uint64(o), 10))
	return nil
}

func setDurableFork(h http.Header, f *ForkRequest, at Position) error {
	h.Set(wire.StreamForkedFrom, escaped(durableRoot, f.From))
	if at != Now() {
		h.Set(wire.StreamForkOffset, at.durable())
	}
	if f.Sub > 0 {
		h.Set(wire.StreamForkSubOffset, strconv.FormatUint(f.Sub, 10))
	}
	return nil
}

// forkOf is how the stream of an answer to HEAD began; nil if it is no fork or
// the protocol does not say.
func forkOf(h http.Header) (*Fork, error) {
	path := h.Get(wire.PicoForkedFrom)
	if path == "" {
		return nil, nil
	}
	text, err := url.PathUnescape(strings.TrimPrefix(path, "/"))
	if err != nil {
		return nil, err
	}
	from, err := stream.ParseName(text)
	if err != nil {
		return nil, err
	}
	return &Fork{From: from, At: stream.Offset(decimal(h.Get(wire.PicoForkSeq))), Sub: decimal(h.Get(wire.PicoForkSubOffset))}, nil
}
