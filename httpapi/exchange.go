package httpapi

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// exchange is the response of one request, with what the metrics need to know
// about it. It is the ResponseWriter that every handler is given.
type exchange struct {
	http.ResponseWriter
	in      arrival       // the request's body
	body    *buffer       // the same once it was read; nil when it is not to be used again
	served  http.Request  // the request with that body; zero without one
	timeout time.Duration // of the first write; longer responses take more
	last    *atomic.Bool  // the connection is to end with it: [API.Retire]; nil over HTTP/2
	status  int           // 0 until the header is written
	written int64
	held    int64 // bytes that the request's body takes in memory, counted in API.bodies
	live    bool  // it waited for data: its duration says nothing about the service
	// subscribed is how it is counted among the live readers; empty if it is not.
	subscribed subscriberKind
	// rest is what is left of a response after its handler, which the middleware
	// calls with the request: readers that stay for long then hold no handler's
	// frames on their stacks.
	rest func(*http.Request)
}

// WriteHeader keeps the first final status, and gives the client time from now
// on: what came before (a long body, a wait) is not its fault.
func (e *exchange) WriteHeader(status int) {
	if e.status == 0 && status >= http.StatusOK {
		e.status = status
		e.in.settle()
		if e.last != nil && e.last.Load() {
			e.Header().Set("Connection", "close")
		}
		allowWrite(e.ResponseWriter, e.timeout)
	}
	e.ResponseWriter.WriteHeader(status)
}

// Write counts what the client is sent.
func (e *exchange) Write(p []byte) (int, error) {
	if e.status == 0 {
		e.WriteHeader(http.StatusOK)
	}
	n, err := e.ResponseWriter.Write(p)
	e.written += int64(n)
	return n, err
}

// Unwrap lets [http.ResponseController] reach the connection.
func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// goOn has the rest of a response made after its handler has returned.
func goOn(w http.ResponseWriter, rest func(*http.Request)) {
	if e, ok := w.(*exchange); ok {
		e.rest = rest
	}
}

// allowWrite gives the client d from now to take what is written next. Where
// the connection knows no deadlines (a recorder in a test) it does nothing.
func allowWrite(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}

// awaitQuietly takes a deadline back while nothing is written: an HTTP/2 stream
// would be reset when it passes, though nobody is late.
func awaitQuietly(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
}

// writePiece is the most that is written under one deadline: a client is cut for
// standing still, not for being slow.
const writePiece = 256 << 10

// smallPart is the most bytes of a part that is copied to be written with its
// neighbours, in pieces of up to joinedPiece: a write costs as much as to copy some
// 16 KiB.
const (
	smallPart   = 16 << 10
	joinedPiece = 64 << 10
)

// joinBuffers holds the buffers in which small parts are put together.
var joinBuffers = sync.Pool{New: func() any { return new([joinedPiece]byte) }}

// writePieces writes parts one after the other, small ones together and others
// from where they lie, and gives the client the timeout for each piece of them. An
// error means that the client has gone or stands still.
func writePieces(w http.ResponseWriter, timeout time.Duration, parts ...[]byte) error {
	if len(parts) == 1 {
		return writeInPlace(w, timeout, parts[0])
	}
	buffer := joinBuffers.Get().(*[joinedPiece]byte)
	defer joinBuffers.Put(buffer)
	held := buffer[:0]
	for _, part := range parts {
		if len(held) > 0 && len(held)+len(part) > joinedPiece {
			if err := writeInPlace(w, timeout, held); err != nil {
				return err
			}
			held = buffer[:0]
		}
		if len(part) <= smallPart {
			held = append(held, part...)
			continue
		}
		if err := writeInPlace(w, timeout, held); err != nil {
			return err
		}
		if err := writeInPlace(w, timeout, part); err != nil {
			return err
		}
		held = buffer[:0]
	}
	return writeInPlace(w, timeout, held)
}

func writeInPlace(w http.ResponseWriter, timeout time.Duration, part []byte) error {
	for len(part) > 0 {
		piece := part[:min(len(part), writePiece)]
		part = part[len(piece):]
		allowWrite(w, timeout)
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// writeWhole answers with a body made of parts. A client that does not take it is
// its own affair: there is nobody to tell.
func (a *API) writeWhole(w http.ResponseWriter, parts [][]byte) error {
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.WriteHeader(http.StatusOK)
	_ = writePieces(w, a.config.WriteTimeout, parts...)
	return nil
}
