package crash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// pico is the native protocol.
type pico struct{}

func (pico) path(name stream.Name) string { return "/" + string(name) }

func (pico) request(w *write) (method string, h http.Header, body []byte) {
	h = http.Header{}
	method = http.MethodPost
	switch {
	case w.deletes:
		return http.MethodDelete, h, nil
	case w.creates:
		method = http.MethodPut
		picoCreate(h, w)
	}
	if w.closes {
		h.Set(wire.PicoClosed, "true")
	}
	if p := w.producer; p != nil {
		h.Set(wire.PicoProducerID, p.ID)
		h.Set(wire.PicoProducerEpoch, strconv.FormatUint(p.Epoch, 10))
		h.Set(wire.PicoProducerSeq, strconv.FormatUint(p.Seq, 10))
	}
	if w.match != nil {
		h.Set(wire.PicoMatchSeq, strconv.FormatUint(uint64(*w.match), 10))
	}
	if w.count == 0 {
		return method, h, nil
	}
	sending := records(w.writer, w.request, w.count)
	switch {
	case w.count == 1 && (w.creates || w.request%2 == 0):
		h.Set("Content-Type", w.stream.contentType)
		return method, h, sending[0].Body
	case w.request%3 == 0:
		h.Set("Content-Type", wire.TypeBatchJSON)
		return method, h, wire.EncodeJSONAppend(nil, sending)
	default:
		h.Set("Content-Type", wire.TypeBatch)
		return method, h, wire.EncodeBinaryAppend(nil, sending)
	}
}

// picoCreate spells what a create makes. A fork leaves the content type out now
// and then, to inherit it.
func picoCreate(h http.Header, w *write) {
	f := w.stream.fork
	if f == nil || w.request%2 == 0 {
		h.Set("Content-Type", w.stream.contentType)
	}
	if f == nil {
		return
	}
	h.Set(wire.PicoForkedFrom, pico{}.path(f.parent.name))
	if f.at != nil {
		h.Set(wire.PicoForkSeq, strconv.FormatUint(uint64(*f.at), 10))
	}
}

func (pico) answered(w *write, status int, h http.Header, body []byte) (a answer, err error) {
	if w.deletes {
		return deleted(status), nil
	}
	a.closed = h.Get(wire.PicoClosed) == "true"
	switch {
	case status == http.StatusCreated || status == http.StatusOK:
		a.verdict = accepted
		if w.creates && status == http.StatusOK || w.producer != nil && w.count > 0 && h.Get(wire.PicoTimestamp) == "" {
			a.verdict = duplicate
		}
		if a.next, err = offsetHeader(h, wire.PicoNextSeq); err != nil {
			return a, err
		}
		if a.startKnown = !w.creates && w.count > 0; a.startKnown {
			a.start, err = offsetHeader(h, wire.PicoStartSeq)
		}
		return a, err
	case unavailable(status):
		a.verdict = tryLater
		return a, nil
	case gone(status):
		a.verdict = streamGone
		return a, nil
	}
	var refusal wire.ErrorBody
	if err := json.Unmarshal(body, &refusal); err != nil {
		return a, err
	}
	switch {
	case status == http.StatusPreconditionFailed && refusal.NextSeq != nil:
		a.verdict, a.next = conditionFail, *refusal.NextSeq
	case status == http.StatusConflict && refusal.Error == wire.ErrorClosed && refusal.NextSeq != nil:
		a.verdict, a.next = streamClosed, *refusal.NextSeq
	default:
		a.verdict = unexpected
	}
	return a, nil
}

func (pico) position(from stream.Offset) url.Values {
	format := "binary"
	if from%2 == 0 {
		format = "json"
	}
	return url.Values{"seq": {strconv.FormatUint(uint64(from), 10)}, "format": {format}, "bytes": {"262144"}}
}

func (pico) page(_ *ledger, _ stream.Offset, h http.Header, body []byte) (p page, err error) {
	decode := wire.DecodeJSONRead
	if h.Get("Content-Type") != wire.TypeJSON {
		decode = wire.DecodeBinaryRead
	}
	if p.records, err = decode(body); err != nil {
		return p, err
	}
	p.upToDate = h.Get(wire.PicoUpToDate) == "true"
	p.closed = h.Get(wire.PicoClosed) == "true"
	p.next, err = offsetHeader(h, wire.PicoNextSeq)
	return p, err
}

func (pico) events(*ledger) eventDecoder { return picoEvents{} }

type picoEvents struct{}

func (picoEvents) data(data []byte) ([][]byte, error) {
	read, err := wire.DecodeJSONRead(data)
	if err != nil {
		return nil, err
	}
	bodies := make([][]byte, len(read))
	for i := range read {
		bodies[i] = read[i].Body
	}
	return bodies, nil
}

func (picoEvents) control(data []byte) (next stream.Offset, closed bool, err error) {
	var c wire.Control
	err = json.Unmarshal(data, &c)
	return c.NextSeq, c.Closed, err
}

func offsetHeader(h http.Header, name string) (stream.Offset, error) {
	n, err := wire.ParseCanonicalDecimal(h.Get(name))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return stream.Offset(n), nil
}
