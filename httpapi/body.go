package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/picomq/picomq/stream"
)

// bodyReserve is the most memory taken for a body on the word of its
// Content-Length alone.
const bodyReserve = 256 << 10

// readBody reads the whole body of a request, at most [Config.MaxBody] bytes.
// The errors are *[stream.Error]: [stream.CodeTooLarge] for a larger one (seen
// from Content-Length before anything is read), [stream.CodeBadRequest] for one
// that ends early or is not framed as HTTP says, or takes longer than
// [Config.BodyTimeout], and [stream.CodeOverloaded] when the bodies of all
// requests together fill [Config.BodyBudget]. Nothing of a body that is not
// whole is ever written.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := a.config.MaxBody
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close") // rather than read what is refused
		return nil, bodyTooLarge(limit)
	}
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(time.Now().Add(a.config.BodyTimeout)) // a test's recorder has none
	var buffer bytes.Buffer
	if r.ContentLength > 0 {
		// MinRead more, or the last read would grow the buffer once again.
		buffer.Grow(int(min(r.ContentLength, bodyReserve)) + bytes.MinRead)
	}
	_, err := buffer.ReadFrom(a.meter(w, http.MaxBytesReader(w, r.Body, limit)))
	if err != nil {
		return nil, a.bodyError(err)
	}
	_ = deadlines.SetReadDeadline(time.Time{})
	a.config.Metrics.bodyBytes.WithLabelValues("in").Add(float64(buffer.Len()))
	return buffer.Bytes(), nil
}

func bodyTooLarge(limit int64) error {
	return stream.Errorf(stream.CodeTooLarge,
		"the request body is larger than %d bytes; send it in several requests", limit)
}

func (a *API) bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	var refused *stream.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &tooLarge):
		return bodyTooLarge(a.config.MaxBody)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return stream.Errorf(stream.CodeBadRequest,
			"the request body was not whole after %v; nothing was written", a.config.BodyTimeout)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return stream.Errorf(stream.CodeBadRequest, "the request body ended early; nothing was written")
	default:
		return stream.Errorf(stream.CodeBadRequest, "the request body could not be read, and nothing was written: %w", err)
	}
}

// meteredBody counts the bytes of a body against the budget of all bodies, from
// when they arrive until their request is answered.
type meteredBody struct {
	io.Reader
	exchange *exchange
	api      *API
}

func (a *API) meter(w http.ResponseWriter, body io.Reader) io.Reader {
	e, ok := w.(*exchange)
	if !ok {
		return body
	}
	return &meteredBody{Reader: body, exchange: e, api: a}
}

func (m *meteredBody) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.exchange.held += int64(n)
	if held := m.api.bodies.Add(int64(n)); held > m.api.config.BodyBudget {
		return n, stream.Errorf(stream.CodeOverloaded,
			"the bodies of the requests under way fill %d bytes of memory; nothing was written, try again", m.api.config.BodyBudget)
	}
	return n, err
}

// refuseBody is for requests that must have no body: what names them.
func (a *API) refuseBody(w http.ResponseWriter, r *http.Request, what string) error {
	if r.ContentLength == 0 || r.Body == nil {
		return nil
	}
	if r.ContentLength < 0 {
		// Chunks may come, and none may: one byte decides.
		deadlines := http.NewResponseController(w)
		_ = deadlines.SetReadDeadline(time.Now().Add(a.config.BodyTimeout))
		var one [1]byte
		if _, err := io.ReadFull(r.Body, one[:]); errors.Is(err, io.EOF) {
			_ = deadlines.SetReadDeadline(time.Time{})
			return nil
		}
	}
	return stream.Errorf(stream.CodeBadRequest, "%s takes no body; send it without one", what)
}
