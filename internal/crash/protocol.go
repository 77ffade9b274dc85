package crash

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// verdict is what an answer says about a request.
type verdict uint8

const (
	accepted      verdict = iota // done by this request
	duplicate                    // done before, by the same request
	conditionFail                // not done: the tail or the stream sequence is another
	streamClosed                 // not done: the stream is closed
	streamGone                   // not done: the stream was deleted
	tryLater                     // not answered for: 429 or 503
	unexpected
)

// answer is the answer to a write, in the words of neither protocol.
type answer struct {
	verdict    verdict
	start      stream.Offset // of the request's first record, if startKnown
	startKnown bool
	next       stream.Offset // the tail; 0 where the answer tells none
	closed     bool
	status     int
	text       string // of the body, cut short
}

// protocol is one of the two spellings of a stream.
type protocol interface {
	// request spells a write.
	request(w *write) (method string, headers http.Header, body []byte)
	// answered reads the answer to it.
	answered(w *write, status int, h http.Header, body []byte) (answer, error)
	// path is the URL path of a stream.
	path(name stream.Name) string
	// position is the query that reads from an offset on.
	position(from stream.Offset) url.Values
	// page reads one answer to it: the records, the next offset, and whether
	// nothing more existed.
	page(l *ledger, from stream.Offset, h http.Header, body []byte) (page, error)
	// events reads the data of one event of a live read.
	events(l *ledger) eventDecoder
}

// page is part of a stream as read back. Times are zero where the protocol
// shows none, and so are sequences.
type page struct {
	records  []wire.ReadRecord
	next     stream.Offset
	upToDate bool
	closed   bool
}

// server is one life of the server, as clients see it.
type server struct {
	url    string
	client *http.Client
}

// maxAnswer bounds the answers that clients read, in bytes.
const maxAnswer = 16 << 20

// roundTrip sends a request and reads the whole answer. An error means that no
// answer was received.
func (s *server) roundTrip(ctx context.Context, method, path string, headers http.Header, body []byte) (int, http.Header, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	if headers != nil {
		request.Header = headers
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return 0, nil, nil, err
	}
	return response.StatusCode, response.Header, text, nil
}

// send sends a write and reads its answer. The first error means that there
// was none; the second that it makes no sense.
func (s *server) send(ctx context.Context, p protocol, w *write) (a answer, lost, err error) {
	method, headers, body := p.request(w)
	status, h, text, lost := s.roundTrip(ctx, method, p.path(w.stream.name), headers, body)
	if lost != nil {
		return answer{}, lost, nil
	}
	a, err = p.answered(w, status, h, text)
	if err != nil {
		return answer{}, nil, fmt.Errorf("the answer to %v (%d %.200q): %w", w, status, text, err)
	}
	a.status, a.text = status, string(text[:min(len(text), 200)])
	return a, nil, nil
}

// deleted is the answer to a delete: in both protocols the same.
func deleted(status int) (a answer) {
	switch {
	case status == http.StatusNoContent:
		a.verdict = accepted
	case gone(status):
		a.verdict = duplicate
	case unavailable(status):
		a.verdict = tryLater
	default:
		a.verdict = unexpected
	}
	return a
}

// gone reports whether a status says that there is no such stream, whether or
// not forks need it.
func gone(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }

// unavailable reports whether a status asks to try again later.
func unavailable(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}
