package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// Bounds of what is still read of a body that a handler has not read to its end,
// so that its connection can be used again.
const (
	drainTimeout = 2 * time.Second
	drainBytes   = 256 << 10
)

// arrival is the body of a request on its way in: what the handlers read, under
// one deadline from the moment the request began ([Config.BodyTimeout]).
//
// Over HTTP/1, net/http reads the rest of a body before it writes a response and
// again after it, without any bound on the time: a client that announces a body
// and never sends it would get no answer, and keep its connection and goroutine
// for ever. So whenever a response begins, [arrival.settle] reads the rest
// itself, for a short time, or gives the connection up.
type arrival struct {
	io.ReadCloser                     // nil: the request has no body
	w             http.ResponseWriter // net/http's own
	left          int64               // bytes that are still announced; negative: not known
	invited       bool                // the client sends unasked, or has been asked to
	drains        bool                // HTTP/1: a response waits for the end of the body
	over          bool                // it was read to its end
	failed        bool                // it never will be
	settled       bool
}

// receive begins the time of a request's body and reports whether there is one.
func (in *arrival) receive(w http.ResponseWriter, r *http.Request, timeout time.Duration) bool {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return false
	}
	*in = arrival{
		ReadCloser: r.Body,
		w:          w,
		left:       r.ContentLength,
		invited:    !strings.EqualFold(r.Header.Get("Expect"), "100-continue"),
		drains:     r.ProtoMajor == 1,
	}
	in.deadline(time.Now().Add(timeout))
	return true
}

// deadline bounds all reads until it is set again. A test's recorder has none.
func (in *arrival) deadline(at time.Time) {
	_ = http.NewResponseController(in.w).SetReadDeadline(at)
}

// Read takes the deadline back at the end: net/http goes on reading there, to
// learn whether the client leaves.
func (in *arrival) Read(p []byte) (int, error) {
	in.invited = true
	n, err := in.ReadCloser.Read(p)
	if in.left > 0 {
		in.left -= int64(n)
	}
	switch {
	case errors.Is(err, io.EOF):
		in.over = true
		in.deadline(time.Time{})
	case err != nil:
		in.failed = true
	}
	return n, err
}

// settle ends the body, once, before the response or its goroutine waits for it.
func (in *arrival) settle() {
	if in.ReadCloser == nil || in.settled {
		return
	}
	in.settled = true
	if !in.drains || in.over {
		return
	}
	if !in.drain() {
		in.giveUp()
	}
}

// drain reads a short rest to its end.
func (in *arrival) drain() bool {
	if in.failed || !in.invited || in.left > drainBytes {
		return false
	}
	in.deadline(time.Now().Add(drainTimeout))
	_, _ = io.CopyN(io.Discard, in, drainBytes+1)
	return in.over
}

// giveUp has the connection closed after the response, and lets nothing more be
// read. A MaxBytesReader that has met too much tells net/http to close in a way
// that a client who still sends gets the response, and not a reset.
func (in *arrival) giveUp() {
	in.w.Header().Set("Connection", "close")
	tooMuch := http.MaxBytesReader(in.w, io.NopCloser(strings.NewReader("x")), 0)
	_, _ = tooMuch.Read(make([]byte, 1))
	in.deadline(time.Unix(1, 0))
}
