package client

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// CreateRequest asks for a stream.
type CreateRequest struct {
	// Config's type defaults to [stream.DefaultContentType]. A fork has its
	// parent's type, expiry and bounds of retention where Config has none. Durable
	// Streams has no retention.
	Config stream.Config
	Closed bool         // Body is then the whole content, but for what a fork has of its parent
	Fork   *ForkRequest // nil: not a fork
	// Body, if any, is the first content, in the stream's type: one record, or
	// with Durable Streams and JSON one record per element of an array.
	Body []byte
}

// Created answers a CreateRequest.
type Created struct {
	New    bool // false: it existed with the same configuration, and Body was not appended
	Next   Position
	Closed bool
}

// Create makes a stream. [stream.CodeConflict] means that it exists with
// another configuration, or that it, or the parent of a fork, was deleted and
// other forks keep its name. The errors of a fork at an offset that its parent
// does not have are those of a read there.
func (c *Client) Create(ctx context.Context, name stream.Name, r CreateRequest) (Created, error) {
	request, err := c.newRequest(http.MethodPut, name)
	if err != nil {
		return Created{}, err
	}
	names := c.headerNames()
	contentType := r.Config.ContentType
	if contentType == "" && r.Fork == nil {
		contentType = stream.DefaultContentType
	}
	if contentType != "" {
		request.header.Set("Content-Type", contentType)
	}
	request.body = r.Body
	if r.Fork != nil {
		if err := c.setFork(ctx, request, r.Fork); err != nil {
			return Created{}, err
		}
	}
	switch r.Config.Expiry.Kind {
	case stream.ExpiresIdle:
		request.header.Set(names.ttl, strconv.FormatUint(r.Config.Expiry.TTL, 10))
	case stream.ExpiresAt:
		request.header.Set(names.expiresAt, formatTime(r.Config.Expiry.At))
	case stream.ExpiresNever:
	}
	if err := c.setRetention(request.header, r.Config.Retention); err != nil {
		return Created{}, err
	}
	if r.Closed {
		request.header.Set(names.closed, "true")
	}
	a, err := c.do(ctx, request, changesAgain)
	if err != nil {
		return Created{}, err
	}
	return Created{New: a.status == http.StatusCreated, Next: c.next(a.header), Closed: isTrue(a.header.Get(names.closed))}, nil
}

// Appended answers an append.
type Appended struct {
	First      stream.Offset // of the first record, if FirstKnown
	FirstKnown bool
	Next       Position    // the tail after it
	Time       stream.Time // that the records carry; 0 when the protocol does not say
	Closed     bool
	Duplicate  bool // the producer's number was acknowledged before; nothing was written
}

// Append adds records at the end of a stream, all or none, and closes it if
// asked to; without records it only closes. With a producer it is tried again
// until its outcome is known, and never written twice.
//
// Durable Streams needs ContentType, takes one record unless the type is JSON,
// and has neither record headers nor Match; Pico has no StreamSeq. Those are
// [stream.CodeUnsupported].
func (c *Client) Append(ctx context.Context, name stream.Name, r *stream.AppendRequest) (Appended, error) {
	request, err := c.newRequest(http.MethodPost, name)
	if err != nil {
		return Appended{}, err
	}
	encode := encodePico
	if c.options.Protocol == DurableStreams {
		encode = encodeDurable
	}
	if err := encode(request, r); err != nil {
		return Appended{}, err
	}
	names := c.headerNames()
	if r.Close {
		request.header.Set(names.closed, "true")
	}
	again := changesAgain
	if p := r.Producer; p != nil {
		again = changesNoMore
		request.header.Set(names.producerID, p.ID)
		request.header.Set(names.producerEpoch, strconv.FormatUint(p.Epoch, 10))
		request.header.Set(names.producerSeq, strconv.FormatUint(p.Seq, 10))
	}
	a, err := c.do(ctx, request, again)
	if err != nil {
		return Appended{}, err
	}
	return c.appended(r, a), nil
}

func (c *Client) appended(r *stream.AppendRequest, a *answer) Appended {
	out := Appended{Next: c.next(a.header), Closed: isTrue(a.header.Get(c.headerNames().closed))}
	if c.options.Protocol == DurableStreams {
		out.Duplicate = r.Producer != nil && len(r.Records) > 0 && a.status == http.StatusNoContent
		return out
	}
	if first, err := wire.ParseDecimal(a.header.Get(wire.PicoStartSeq)); err == nil && len(r.Records) > 0 {
		out.First, out.FirstKnown = stream.Offset(first), true
	}
	out.Time = stream.Time(decimal(a.header.Get(wire.PicoTimestamp)))
	out.Duplicate = r.Producer != nil && len(r.Records) > 0 && a.header.Get(wire.PicoTimestamp) == ""
	return out
}

func encodePico(request *request, r *stream.AppendRequest) error {
	if r.StreamSeq != nil {
		return stream.Errorf(stream.CodeUnsupported, "the Pico protocol has no Stream-Seq; use Durable Streams, or Match")
	}
	if r.Match != nil {
		request.header.Set(wire.PicoMatchSeq, strconv.FormatUint(uint64(*r.Match), 10))
	}
	switch {
	case len(r.Records) == 0:
	case len(r.Records) == 1 && r.ContentType != "" && len(r.Records[0].Headers) == 0 && len(r.Records[0].Body) > 0:
		request.header.Set("Content-Type", r.ContentType)
		request.body = r.Records[0].Body
	default:
		request.header.Set("Content-Type", wire.TypeBatch)
		request.body = wire.EncodeBinaryAppend(nil, r.Records)
	}
	return nil
}

func encodeDurable(request *request, r *stream.AppendRequest) error {
	if r.Match != nil {
		return stream.Errorf(stream.CodeUnsupported, "Durable Streams has no conditional append; use the Pico protocol, or Stream-Seq")
	}
	if r.StreamSeq != nil {
		request.header.Set(wire.StreamSeq, *r.StreamSeq)
	}
	for i := range r.Records {
		if len(r.Records[i].Headers) > 0 {
			return stream.Errorf(stream.CodeUnsupported, "Durable Streams has no record headers; use the Pico protocol")
		}
	}
	json := stream.IsJSON(r.ContentType)
	switch {
	case len(r.Records) == 0:
		return nil
	case r.ContentType == "":
		return stream.Errorf(stream.CodeBadRequest, "Durable Streams needs the stream's content type with every append")
	case len(r.Records) > 1 && !json:
		return stream.Errorf(stream.CodeUnsupported, "Durable Streams takes one record per append unless the stream is JSON; use the Pico protocol to send %d", len(r.Records))
	}
	request.header.Set("Content-Type", r.ContentType)
	if json {
		request.body = jsonArray(r.Records)
	} else {
		request.body = r.Records[0].Body
	}
	return nil
}

// jsonArray wraps the records even if there is one: the server unwraps one
// level, so that a record which is an array itself stays one.
func jsonArray(records []stream.Record) []byte {
	bodies := make([][]byte, len(records))
	for i := range records {
		bodies[i] = records[i].Body
	}
	return append(append([]byte{'['}, bytes.Join(bodies, []byte{','})...), ']')
}

// Close closes a stream: no record is appended after it. Closing again is
// fine.
func (c *Client) Close(ctx context.Context, name stream.Name) (Appended, error) {
	return c.Append(ctx, name, &stream.AppendRequest{Close: true})
}

// Trim drops the records below an offset, which is clamped to the tail, and
// returns the new start. Durable Streams has no trim.
func (c *Client) Trim(ctx context.Context, name stream.Name, to stream.Offset) (start stream.Offset, err error) {
	if c.options.Protocol == DurableStreams {
		return 0, stream.Errorf(stream.CodeUnsupported, "Durable Streams cannot trim a stream; use the Pico protocol")
	}
	request, err := c.newRequest(http.MethodPost, name)
	if err != nil {
		return 0, err
	}
	request.header.Set(wire.PicoTrimSeq, strconv.FormatUint(uint64(to), 10))
	a, err := c.do(ctx, request, changesAgain)
	if err != nil {
		return 0, err
	}
	return stream.Offset(decimal(a.header.Get(wire.PicoStartSeq))), nil
}

// Delete removes a stream. While forks of it live its name stays taken:
// requests for it are refused with [stream.CodeDeleted], a create with
// [stream.CodeConflict].
func (c *Client) Delete(ctx context.Context, name stream.Name) error {
	request, err := c.newRequest(http.MethodDelete, name)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, request, changesAgain)
	return err
}

// formatTime is the RFC 3339 form of a time, with its milliseconds.
func formatTime(t stream.Time) string {
	return time.UnixMilli(int64(t)).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
