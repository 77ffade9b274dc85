package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// bodyReserve is the most memory, in bytes, taken for a body on the word of its
// Content-Length alone; bodyGrowth times as much follows whenever that is full.
const (
	bodyReserve = 64 << 10
	bodyGrowth  = 4
)

// readBody reads the whole body of a request, at most [Config.MaxBody] bytes.
// The errors are *[stream.Error]: [stream.CodeTooLarge] for a larger one (seen
// from Content-Length before anything is read), [stream.CodeBadRequest] for one
// that ends early or is not framed as HTTP says, or takes longer than
// [Config.BodyTimeout], and [stream.CodeOverloaded] when the bodies of all
// requests together fill [Config.BodyBudget]. Nothing of a body that is not
// whole is ever written. Whoever knows that the body is not needed any more calls
// [doneWithBody].
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := a.config.MaxBody
	if r.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	most := limit
	if r.ContentLength > 0 {
		most = r.ContentLength
	}
	buffer, err := collect(http.MaxBytesReader(w, r.Body, limit), most, a.reserve(w))
	if err != nil {
		return nil, a.bodyError(err)
	}
	if e, ok := w.(*exchange); ok {
		e.body = buffer
	}
	body := buffer.bytes
	a.config.Metrics.bodyIn.Add(float64(len(body)))
	return body, nil
}

// collect reads all of a body of at most so many bytes. It reserves memory before
// it takes it.
func collect(body io.Reader, most int64, reserve wire.Reserve) (*buffer, error) {
	all, n, reserved := &buffer{}, 0, int64(0)
	for size := min(most, bodyReserve); int64(n) <= most; size = min(most, bodyGrowth*size) {
		memory := bufferSize(size)
		if err := reserve(memory - reserved); err != nil {
			return nil, err
		}
		reserved = memory
		all = all.grow(memory)
		// One byte more than the most, into which nothing but the end is read.
		room := all.bytes[:min(most, memory)+1]
		for n < len(room) {
			read, err := body.Read(room[n:])
			n += read
			if errors.Is(err, io.EOF) && int64(n) <= most {
				all.bytes = room[:n:n]
				return all, nil
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
		}
		size = memory
	}
	return nil, bodyTooLarge(most)
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

// reserve counts memory against the budget of all bodies until the request that
// w answers has its answer. A request that has all of the budget to itself may
// exceed it: what bounds it are [Config.MaxBody] and [stream.MaxRecords].
func (a *API) reserve(w http.ResponseWriter) wire.Reserve {
	e, ok := w.(*exchange)
	if !ok {
		return func(int64) error { return nil }
	}
	return func(bytes int64) error {
		e.held += bytes
		if held := a.bodies.Add(bytes); held > a.config.BodyBudget && held > e.held {
			return stream.Errorf(stream.CodeOverloaded,
				"the bodies of the requests under way fill %d bytes of memory; nothing was written, try again", a.config.BodyBudget)
		}
		return nil
	}
}

// refuseBody is for requests that must have no body: what names them.
func refuseBody(r *http.Request, what string) error {
	if r.ContentLength == 0 || r.Body == nil {
		return nil
	}
	if r.ContentLength < 0 {
		// Chunks may come, and none may: one byte decides.
		var one [1]byte
		if _, err := io.ReadFull(r.Body, one[:]); errors.Is(err, io.EOF) {
			return nil
		}
	}
	return stream.Errorf(stream.CodeBadRequest, "%s takes no body; send it without one", what)
}
