package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// events follows one event stream until it ends. A data event counts only with
// the control event behind it, so that a connection cut between the two repeats
// nothing.
func (t *tail) events(ctx context.Context) error {
	request, err := t.eventsRequest(ctx)
	if err != nil {
		return err
	}
	ctx, watch := watchSilence(ctx)
	defer watch.stop()
	response, err := t.client.send(ctx, request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	t.answered = true
	decoder := eventDecoder{
		protocol:    t.client.options.Protocol,
		contentType: t.contentType,
		base64:      response.Header.Get(wire.StreamSSEDataEncoding) == "base64",
	}
	reader := wire.NewEventReader(watch.reader(ctx, response.Body), t.client.options.MaxResponse)
	for {
		event, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, wire.ErrEventTooLarge) {
			return stream.Errorf(stream.CodeTooLarge, "%v: %w", request, err)
		}
		if err != nil {
			return connectionError(request, err)
		}
		chunk, err := decoder.decode(event)
		if err != nil {
			return malformed(request, err.Error())
		}
		if chunk == nil {
			continue
		}
		if err := t.checkGap(request, chunk); err != nil {
			return err
		}
		if !t.deliver(chunk) {
			return nil
		}
	}
}

// eventsRequest asks for events from the tail's position. With Durable Streams
// only the stream's type says how their data is read, so it is asked for once.
func (t *tail) eventsRequest(ctx context.Context) (*request, error) {
	if t.client.options.Protocol == DurableStreams && t.contentType == "" {
		info, err := t.client.Head(ctx, t.name)
		if err != nil {
			return nil, err
		}
		t.contentType = info.Config.ContentType
	}
	request, err := t.client.readRequest(t.name, ReadRequest{From: t.from})
	if err != nil {
		return nil, err
	}
	request.query.Del("format") // events are JSON
	request.query.Set("live", "sse")
	return request, nil
}

// eventDecoder makes one chunk of a data event and its control event.
type eventDecoder struct {
	protocol    Protocol
	contentType string // of the stream; empty with Pico
	base64      bool

	pending []Record // of the data event whose control is still to come
	hasData bool
}

// decode is the chunk that the event completes, or nil.
func (d *eventDecoder) decode(event wire.Event) (*Chunk, error) {
	switch event.Name {
	case wire.EventData:
		if d.hasData {
			return nil, errors.New("two data events came without a control event between them")
		}
		d.hasData = true
		return nil, d.data(bytes.Clone(event.Data))
	case wire.EventControl:
		chunk, err := d.control(event.Data)
		if err != nil {
			return nil, fmt.Errorf("control event: %w", err)
		}
		chunk.Records, d.pending, d.hasData = d.pending, nil, false
		return chunk, nil
	default:
		return nil, nil
	}
}

func (d *eventDecoder) data(data []byte) (err error) {
	if d.protocol == Pico {
		d.pending, err = picoRecords(wire.DecodeJSONRead(data))
		return err
	}
	if d.base64 {
		// One value may be spread over several lines.
		if data, err = base64.StdEncoding.DecodeString(strings.ReplaceAll(string(data), "\n", "")); err != nil {
			return fmt.Errorf("data event: %w", err)
		}
	}
	d.pending, err = durableRecords(data, d.contentType)
	return err
}

// durableControl is the data of a control event of Durable Streams.
type durableControl struct {
	NextOffset string `json:"streamNextOffset"`
	UpToDate   bool   `json:"upToDate"`
	Closed     bool   `json:"streamClosed"`
}

func (d *eventDecoder) control(data []byte) (*Chunk, error) {
	if d.protocol == Pico {
		var c wire.Control
		if err := json.Unmarshal(data, &c); err != nil {
			return nil, err
		}
		return &Chunk{Next: At(c.NextSeq), UpToDate: c.UpToDate, Closed: c.Closed}, nil
	}
	var c durableControl
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if c.NextOffset == "" {
		return nil, errors.New("it has no streamNextOffset")
	}
	return &Chunk{Next: Token(c.NextOffset), UpToDate: c.UpToDate || c.Closed, Closed: c.Closed, ContentType: d.contentType}, nil
}
