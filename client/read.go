package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// Record is one message as it was read.
type Record struct {
	stream.Record
	// Offset and Time are the record's, if Known: Pico tells them, Durable
	// Streams does not.
	Offset stream.Offset
	Time   stream.Time
	Known  bool
}

// Chunk is consecutive records of a stream.
type Chunk struct {
	// Records. Durable Streams shows no bounds between records unless the
	// stream is JSON: then there is one Record, of all bytes end to end.
	Records     []Record
	Next        Position // resume here
	UpToDate    bool     // nothing more existed
	Closed      bool     // the stream is closed and this reaches its end
	ContentType string
}

// ReadRequest asks for records that exist.
type ReadRequest struct {
	From Position
	// MaxRecords and MaxBytes bound the answer; 0 leaves it to the server. Both
	// are for Pico; Durable Streams has neither and ignores them.
	MaxRecords int
	MaxBytes   int
}

// Read is the records from a position, as many as the server gives at once.
func (c *Client) Read(ctx context.Context, name stream.Name, r ReadRequest) (*Chunk, error) {
	if c.options.Protocol == DurableStreams && r.From.kind == fromTail && r.From.n > 0 {
		from, err := c.resolve(ctx, name, r.From)
		if err != nil {
			return nil, err
		}
		r.From = from
	}
	chunk, err := c.readOnce(ctx, name, r)
	if retained, found := retainedStart(r.From, err); found {
		r.From = retained
		return c.readOnce(ctx, name, r)
	}
	return chunk, err
}

func (c *Client) readOnce(ctx context.Context, name stream.Name, r ReadRequest) (*Chunk, error) {
	request, err := c.readRequest(name, r)
	if err != nil {
		return nil, err
	}
	a, err := c.do(ctx, request, changesAgain)
	if err != nil {
		return nil, err
	}
	return c.chunk(request, a)
}

func (c *Client) readRequest(name stream.Name, r ReadRequest) (*request, error) {
	request, err := c.newRequest(http.MethodGet, name)
	if err != nil {
		return nil, err
	}
	if c.options.Protocol == DurableStreams {
		return request, r.From.setDurable(request.query)
	}
	request.query.Set("format", "binary")
	if r.MaxRecords > 0 {
		request.query.Set("count", strconv.Itoa(r.MaxRecords))
	}
	if r.MaxBytes > 0 {
		request.query.Set("bytes", strconv.Itoa(r.MaxBytes))
	}
	return request, r.From.setPico(request.query)
}

// chunk decodes the answer to a read or a long poll.
func (c *Client) chunk(r *request, a *answer) (*Chunk, error) {
	names := c.headerNames()
	out := &Chunk{
		Next:        c.next(a.header),
		UpToDate:    isTrue(a.header.Get(names.upToDate)),
		Closed:      isTrue(a.header.Get(names.closed)),
		ContentType: a.header.Get("Content-Type"),
	}
	if a.header.Get(names.next) == "" {
		return nil, malformed(r, "it has no "+names.next)
	}
	if a.status == http.StatusNoContent {
		return out, nil
	}
	var err error
	if c.options.Protocol == DurableStreams {
		out.Records, err = durableRecords(a.body, out.ContentType)
	} else {
		out.Records, err = picoRecords(wire.DecodeBinaryRead(a.body))
	}
	if err != nil {
		return nil, malformed(r, err.Error())
	}
	return out, nil
}

func picoRecords(read []wire.ReadRecord, err error) ([]Record, error) {
	records := make([]Record, len(read))
	for i, r := range read {
		records[i] = Record{Record: r.Record, Offset: r.Seq, Time: r.Time, Known: true}
	}
	return records, err
}

func durableRecords(body []byte, contentType string) ([]Record, error) {
	if !stream.IsJSON(contentType) {
		if len(body) == 0 {
			return nil, nil
		}
		return []Record{{Record: stream.Record{Body: body}}}, nil
	}
	var messages []json.RawMessage
	if err := json.Unmarshal(body, &messages); err != nil {
		return nil, err
	}
	records := make([]Record, len(messages))
	for i, m := range messages {
		records[i].Body = m
	}
	return records, nil
}

func malformed(r *request, what string) error {
	return stream.Errorf(stream.CodeInternal, "%v: the server's answer is not understood: %s", r, what)
}

// Info is what a stream is now.
type Info struct {
	Name   stream.Name
	Config stream.Config // its Retention only from Head through Pico
	Start  stream.Offset // first retained; 0 when the protocol does not say
	Next   Position      // the tail
	Closed bool
	// Fork says how it began, when it is a fork, and Forks how many live forks it
	// has. Only Head through Pico tells them.
	Fork  *Fork
	Forks uint64
}

// Head describes a stream without reading it.
func (c *Client) Head(ctx context.Context, name stream.Name) (Info, error) {
	request, err := c.newRequest(http.MethodHead, name)
	if err != nil {
		return Info{}, err
	}
	a, err := c.do(ctx, request, changesAgain)
	if err != nil {
		return Info{}, err
	}
	names := c.headerNames()
	info := Info{
		Name:   name,
		Config: stream.Config{ContentType: a.header.Get("Content-Type"), Retention: retentionOf(a.header)},
		Start:  stream.Offset(decimal(a.header.Get(wire.PicoStartSeq))),
		Next:   c.next(a.header),
		Closed: isTrue(a.header.Get(names.closed)),
		Forks:  decimal(a.header.Get(wire.PicoForks)),
	}
	if info.Fork, err = forkOf(a.header); err != nil {
		return Info{}, malformed(request, err.Error())
	}
	var ttl *uint64
	if value := a.header.Get(names.ttl); value != "" {
		n := decimal(value)
		ttl = &n
	}
	info.Config.Expiry, err = expiry(ttl, a.header.Get(names.expiresAt))
	if err != nil {
		return Info{}, malformed(request, err.Error())
	}
	return info, nil
}

func expiry(ttl *uint64, expiresAt string) (stream.Expiry, error) {
	if ttl != nil {
		return stream.Expiry{Kind: stream.ExpiresIdle, TTL: *ttl}, nil
	}
	if expiresAt == "" {
		return stream.Expiry{}, nil
	}
	at, err := time.Parse(time.RFC3339, expiresAt)
	return stream.Expiry{Kind: stream.ExpiresAt, At: stream.Time(at.UnixMilli())}, err
}

// Page is some of the streams, in byte order of their names.
type Page struct {
	Streams []Info
	More    bool // list again, after the last name
}

// List is the streams whose names begin with a prefix, after a name, at most
// limit of them (0 leaves it to the server, which gives at most 10,000).
// Durable Streams has no list.
func (c *Client) List(ctx context.Context, prefix string, after stream.Name, limit int) (Page, error) {
	if c.options.Protocol == DurableStreams {
		return Page{}, stream.Errorf(stream.CodeUnsupported, "Durable Streams cannot list streams; use the Pico protocol")
	}
	request := &request{method: http.MethodGet, query: url.Values{"prefix": {"/" + prefix}}, header: http.Header{}}
	if after != "" {
		request.query.Set("start_after", "/"+string(after))
	}
	if limit > 0 {
		request.query.Set("limit", strconv.Itoa(limit))
	}
	a, err := c.do(ctx, request, changesAgain)
	if err != nil {
		return Page{}, err
	}
	var body wire.ListBody
	if err := json.Unmarshal(a.body, &body); err != nil {
		return Page{}, malformed(request, "it is no list of streams; "+askAddress)
	}
	page := Page{More: body.HasMore}
	for _, s := range body.Streams {
		info := Info{
			Name:   stream.Name(strings.TrimPrefix(s.Name, "/")),
			Config: stream.Config{ContentType: s.ContentType},
			Start:  s.StartSeq,
			Next:   At(s.NextSeq),
			Closed: s.Closed,
		}
		if info.Config.Expiry, err = expiry(s.TTL, s.ExpiresAt); err != nil {
			return Page{}, malformed(request, err.Error())
		}
		page.Streams = append(page.Streams, info)
	}
	return page, nil
}
