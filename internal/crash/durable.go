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
	switch {
	case w.deletes:
		return http.MethodDelete, http.Header{}, nil
	case w.creates:
		method = http.MethodPut
		durableFork(h, w)
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

// durableFork spells the fork that a create makes, if it makes one. Now and then
// it leaves the content type out, to inherit it.
func durableFork(h http.Header, w *write) {
	f := w.stream.fork
	if f == nil {
		return
	}
	if w.request%2 != 0 {
		h.Del("Content-Type")
	}
	h.Set(wire.StreamForkedFrom, durable{}.path(f.parent.name))
	if f.at != nil {
		h.Set(wire.StreamForkOffset, wire.FormatToken(*f.at))
		h.Set(wire.StreamForkSubOffset, strconv.FormatUint(f.sub, 10))
	}
}

func (durable) answered(w *write, status int, h http.Header, _ []byte) (a answer, err error) {
	if w.deletes {
		return deleted(status), nil
	}
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
	case gone(status):
		a.verdict = streamGone
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

func (durable) page(l *ledger, from stream.Offset, h http.Header, body []byte) (p page, err error) {
	bodies, err := splitBodies(l, from, body)
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

// splitBodies takes apart the bodies of a stream from an offset on, which lie
// end to end or in a JSON array.
func splitBodies(l *ledger, from stream.Offset, text []byte) (bodies [][]byte, err error) {
	if stream.IsJSON(l.contentType) {
		var values []json.RawMessage
		err := json.Unmarshal(text, &values)
		for _, v := range values {
			bodies = append(bodies, v)
		}
		return bodies, err
	}
	for len(text) > 0 {
		var n int // bytes taken
		if c := l.cutAt(from + offset(len(bodies))); c != nil {
			n = min(c.bytes, len(text))
			bodies = append(bodies, text[:n])
		} else if bodies, n, err = splitWhole(l, from, bodies, text); err != nil {
			return nil, fmt.Errorf("after %d bodies: %w", len(bodies), err)
		}
		text = text[n:]
	}
	return bodies, nil
}

// splitWhole takes whole bodies up to the first cut one, and tells how many
// bytes they have.
func splitWhole(l *ledger, from stream.Offset, bodies [][]byte, text []byte) ([][]byte, int, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for l.cutAt(from+offset(len(bodies))) == nil {
		var value json.RawMessage
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return bodies, len(text), nil
		} else if err != nil {
			return bodies, 0, err
		}
		bodies = append(bodies, value)
	}
	return bodies, int(decoder.InputOffset()), nil
}

func (durable) events(l *ledger) eventDecoder { return durableEvents{stream: l} }

// durableEvents reads the events of a stream that is no fork, so that all its
// bodies are whole wherever the event begins.
type durableEvents struct{ stream *ledger }

func (e durableEvents) data(data []byte) ([][]byte, error) {
	if t := e.stream.contentType; !stream.IsJSON(t) && t != textPlain {
		plain, err := base64.StdEncoding.DecodeString(string(bytes.ReplaceAll(data, []byte{'\n'}, nil)))
		if err != nil {
			return nil, err
		}
		data = plain
	}
	return splitBodies(e.stream, 0, data)
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
