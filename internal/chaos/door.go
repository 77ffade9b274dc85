package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// patience is how long a client waits for an answer. What comes later is
// unknown to it.
const patience = 2 * time.Second

// door is one node as its clients see it. A call is one request: what is tried
// again is another call, perhaps through another door.
type door struct {
	pico, durable *client.Client
	transport     *http.Transport
}

func newDoor(url string) (*door, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	options := client.Options{
		HTTPClient: &http.Client{Transport: noteStale{transport}}, Timeout: patience, RetryFor: -1,
	}
	pico, err := client.New(url, options)
	if err != nil {
		return nil, err
	}
	options.Protocol = client.DurableStreams
	durable, err := client.New(url, options)
	return &door{pico: pico, durable: durable, transport: transport}, err
}

// staleKey finds, in the context of a request, the bool to set when its answer
// says that it may be of the past.
type staleKey struct{}

// noteStale notes such answers. They promise a prefix, and nothing about now.
type noteStale struct{ http.RoundTripper }

func (n noteStale) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.RoundTripper.RoundTrip(r)
	if stale, ok := r.Context().Value(staleKey{}).(*bool); ok && err == nil && response.Header.Get(wire.PicoStaleMs) != "" {
		*stale = true
	}
	return response, err
}

// contentType is that of all streams.
const contentType = "application/json"

// create makes an empty stream.
func (d *door) create(ctx context.Context, name stream.Name) (*output, error) {
	created, err := d.pico.Create(ctx, name, client.CreateRequest{Config: stream.Config{ContentType: contentType}})
	switch {
	case err != nil:
		out, err := refusal(err)
		if err == nil && out.verdict == closed { // it says why it conflicts
			out = &output{verdict: conflicted}
		}
		return out, err
	case created.New:
		return &output{verdict: done}, nil
	default:
		return &output{verdict: existed}, nil
	}
}

// remove deletes a stream.
func (d *door) remove(ctx context.Context, name stream.Name) (*output, error) {
	if err := d.pico.Delete(ctx, name); err != nil {
		return refusal(err)
	}
	return &output{verdict: done}, nil
}

// append adds records, closes, or does both.
func (d *door) append(ctx context.Context, name stream.Name, in *input) (*output, error) {
	request := &stream.AppendRequest{ContentType: contentType, Close: in.closes}
	for i := range in.count {
		request.Records = append(request.Records, stream.Record{Body: encodeBody(in.id + i)})
	}
	if in.producer != 0 {
		request.Producer = &stream.Producer{ID: fmt.Sprintf("producer-%d", in.producer), Seq: in.number}
	}
	if in.match != nil {
		match := stream.Offset(*in.match)
		request.Match = &match
	}
	speaks := d.pico
	if in.seq != "" {
		request.StreamSeq, speaks = &in.seq, d.durable
	}
	appended, err := speaks.Append(ctx, name, request)
	if err != nil {
		out, err := refusal(err)
		if err == nil && out.verdict == conflicted { // as Durable Streams says it
			out.verdict = outrun
		}
		return out, err
	}
	out := &output{verdict: done, first: uint64(appended.First), firstKnown: appended.FirstKnown}
	if appended.Duplicate {
		out.verdict = existed
	}
	next, known := appended.Next.Offset()
	out.tail, out.tailKnown = uint64(next), known
	return out, nil
}

// refusals are what answers mean, but those that leave the outcome open. A create
// conflicts only where the stream is closed: all ask for the same configuration.
var refusals = map[stream.Code]verdict{
	stream.CodeMatchFailed: mismatched,
	stream.CodeStreamSeq:   outrun,
	stream.CodeClosed:      closed,
	stream.CodeNotFound:    missing,
	stream.CodeConflict:    conflicted,
}

// refusal is what an error says. The error returned is one that no call may get.
func refusal(err error) (*output, error) {
	if mayPass(err) {
		return &output{}, nil
	}
	var e *stream.Error
	if !errors.As(err, &e) {
		return nil, err
	}
	means, known := refusals[e.Code]
	if !known {
		return nil, fmt.Errorf("an answer that this call may not get: %w", err)
	}
	out := &output{verdict: means}
	if means == mismatched || means == closed {
		out.tail, out.tailKnown = uint64(e.Tail), true
	}
	return out, nil
}

// mayPass tells whether an error is of the kind that another node, or a later
// time, mends. Whether a write was carried out nobody knows then.
func mayPass(err error) bool {
	code := stream.CodeOf(err)
	return code == stream.CodeUnavailable || code == stream.CodeOutcomeUnknown || code == stream.CodeOverloaded
}

// read is the whole content of a stream. current is false when the node could
// not tell whether it is: then it is a prefix.
func (d *door) read(ctx context.Context, name stream.Name) (content []uint64, out *output, current bool, err error) {
	stale := false
	ctx = context.WithValue(ctx, staleKey{}, &stale)
	chunk, err := d.pico.Read(ctx, name, client.ReadRequest{From: client.Start(), MaxRecords: mostRead, MaxBytes: mostBytes})
	if err != nil {
		out, err := refusal(err)
		return nil, out, !stale, err
	}
	if content, err = decode(chunk, 0); err != nil {
		return nil, nil, false, fmt.Errorf("%s: %w", name, err)
	}
	out = &output{verdict: done, tail: uint64(len(content)), tailKnown: true, closed: chunk.Closed}
	for _, id := range content {
		out.content = fold(out.content, id)
	}
	return content, out, !stale && chunk.UpToDate, nil
}

// Bounds of one read, above what a stream gets.
const (
	mostRead  = 10_000
	mostBytes = 4 << 20
)

// setBack is how far this machine's clock may be set back meanwhile.
const setBack = time.Minute

// decode reads the records of a chunk, which must begin at an offset and end
// where the chunk says. Their times are log time: they never go back, and are not
// ahead of the database's clock, which is this machine's, whatever the nodes' say.
func decode(chunk *client.Chunk, from uint64) (ids []uint64, err error) {
	latest, before := stream.Time(time.Now().Add(setBack).UnixMilli()), stream.Time(0)
	for i := range chunk.Records {
		r := &chunk.Records[i]
		id, err := decodeBody(r.Body)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
		if !r.Known {
			continue
		}
		if r.Offset != stream.Offset(from)+stream.Offset(i) {
			return nil, fmt.Errorf("a gap or a repeat: record %d came where %d belongs", r.Offset, from+uint64(i))
		}
		if r.Time < before || r.Time > latest {
			return nil, fmt.Errorf("the time of record %d is %d, that of the one before it %d, and no time here is above %d", r.Offset, r.Time, before, latest)
		}
		before = r.Time
	}
	if next, known := chunk.Next.Offset(); !known || uint64(next) != from+uint64(len(ids)) {
		return nil, fmt.Errorf("a gap or a repeat: the next offset is %v after %d records from %d", chunk.Next, len(ids), from)
	}
	return ids, nil
}

// body is a record: its number, and some bytes that follow from it.
type body struct {
	ID  uint64 `json:"id"`
	Pad string `json:"pad"`
}

func encodeBody(id uint64) []byte {
	size := int(fold(0, id) % 64)
	if id%41 == 0 {
		size = 3000
	}
	text, err := json.Marshal(body{ID: id, Pad: strings.Repeat(string(rune('a'+id%26)), size)})
	if err != nil {
		panic(err) // numbers and strings always encode
	}
	return text
}

func decodeBody(text []byte) (uint64, error) {
	var b body
	if err := json.Unmarshal(text, &b); err != nil {
		return 0, fmt.Errorf("a body that nobody sent: %.80q: %w", text, err)
	}
	if string(encodeBody(b.ID)) != string(text) {
		return 0, fmt.Errorf("the body of record %d is damaged: %.80q", b.ID, text)
	}
	return b.ID, nil
}
