package crash

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// durable is the Durable Streams protocol.
type durable struct{}

func (durable) path(name stream.Name) string { return "/v1/stream/" + string(name) }

func (durable) request(w *write) (method string, h http.Header, body []byte) {
	h = http.Header{"Content-Type": {w.stream.contentType}}
	method = http.MethodPost
	if w.creates {
		method = http.MethodPut
	}
	if w.closes {
		h.Set(wire.StreamClosed, "true")
	}
	if w.streamSeq != "" {
		h.Set(wire.StreamSeq, w.streamSeq)
	}
	if p := w.producer; p != nil {
		h.Set(wire.ProducerID, p.ID)
		h.Set(wire.ProducerEpoch, strconv.FormatUint(p.Epoch, 10))
		h.Set(wire.ProducerSeq, strconv.FormatUint(p.Seq, 10))
	}
	sending := records(w.writer, w.request, w.count)
	switch {
	case w.count == 0:
		return method, h, nil
	case w.count == 1 && w.request%2 == 0:
		return method, h, sending[0].Body
	case !stream.IsJSON(w.stream.contentType): // where an append is one record
		return method, h, sending[0].Body
	}
	bodies := make([][]byte, len(sending))
	for i := range sending {
		bodies[i] = sending[i].Body
	}
	body = append([]byte{'['}, bytes.Join(bodies, []byte{','})...)
	return method, h, append(body, ']')
}

func (durable) answered(w *write, status int, h http.Header, _ []byte) (a answer, err error) {
	a.closed = h.Get(wire.StreamClosed) == "true"
	switch {
	case status == http.StatusOK || status == http.StatusCreated || status == http.StatusNoContent:
		a.verdict = accepted
		if w.creates && status == http.StatusOK || w.producer != nil && w.count > 0 && status == http.StatusNoContent {
			a.verdict = duplicate
		}
	case status == http.StatusConflict && a.closed:
		a.verdict = streamClosed
	case status == http.StatusConflict && w.streamSeq != "":
		a.verdict = conditionFail
		return a, nil
	case unavailable(status):
		a.verdict = tryLater
		return a, nil
	default:
		a.verdict = unexpected
		return a, nil
	}
	if a.next, err = wire.ParseToken(h.Get(wire.StreamNextOffset)); err != nil {
		return a, err
	}
	if a.startKnown = a.verdict == accepted && !w.creates && w.count > 0; a.startKnown {
		a.start = a.next - stream.Offset(w.count)
	}
	return a, nil
}

func (durable) position(from stream.Offset) url.Values {
	return url.Values{"offset": {wire.FormatToken(from)}}
}

func (durable) page(l *ledger, h http.Header, body []byte) (p page, err error) {
	bodies, err := splitBodies(l.contentType, body)
	if err != nil {
		return p, err
	}
	for _, b := range bodies {
		p.records = append(p.records, wire.ReadRecord{Record: stream.Record{Body: b}})
	}
	p.upToDate = h.Get(wire.StreamUpToDate) == "true"
	p.closed = h.Get(wire.StreamClosed) == "true"
	p.next, err = wire.ParseToken(h.Get(wire.StreamNextOffset))
	return p, err
}

// splitBodies takes apart bodies that lie end to end, or in a JSON array.
func splitBodies(contentType string, text []byte) (bodies [][]byte, err error) {
	if stream.IsJSON(contentType) {
		var values []json.RawMessage
		err := json.Unmarshal(text, &values)
		for _, v := range values {
			bodies = append(bodies, v)
		}
		return bodies, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var value json.RawMessage
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return bodies, nil
		} else if err != nil {
			return nil, fmt.Errorf("after %d bodies: %w", len(bodies), err)
		}
		bodies = append(bodies, value)
	}
}

func (durable) events(l *ledger) eventDecoder { return durableEvents{contentType: l.contentType} }

type durableEvents struct{ contentType string }

func (e durableEvents) data(data []byte) ([][]byte, error) {
	if !stream.IsJSON(e.contentType) && e.contentType != textPlain {
		plain, err := base64.StdEncoding.DecodeString(string(bytes.ReplaceAll(data, []byte{'\n'}, nil)))
		if err != nil {
			return nil, err
		}
		data = plain
	}
	return splitBodies(e.contentType, data)
}

func (durableEvents) control(data []byte) (next stream.Offset, closed bool, err error) {
	var c struct {
		Next   string `json:"streamNextOffset"`
		Closed bool   `json:"streamClosed"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return 0, false, err
	}
	next, err = wire.ParseToken(c.Next)
	return next, c.Closed, err
}
