package httpapi

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// headerRequestID names a request in the response and in the log.
const headerRequestID = "X-Request-Id"

// middleware is what happens around every request, whatever its path: it gets
// an id, headers that all responses carry and a bound on its time; preflights
// are answered; panics become 500; and it is counted.
func (a *API) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		e := &exchange{ResponseWriter: w}
		a.setCommonHeaders(e.Header(), r)
		// A fresh deadline for every request: connections are used again, and
		// the last response may have left one. Long poll writes after waiting.
		allowWrite(e, a.config.LongPollTimeout+a.config.WriteTimeout)
		defer func() {
			a.recoverPanic(e, r, recover())
			a.config.Metrics.answered(r, e, time.Since(began))
		}()
		if r.Method == http.MethodOptions {
			answerPreflight(e)
			return
		}
		next.ServeHTTP(e, r)
	})
}

// The CORS lists name every header of both protocols that a browser may send
// and read.
var (
	allowedMethods = strings.Join([]string{
		http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodOptions,
	}, ", ")
	allowedHeaders = strings.Join([]string{
		"Content-Type", "Authorization", "If-None-Match", "Last-Event-ID", headerRequestID,
		"Stream-Seq", "Stream-TTL", "Stream-Expires-At", "Stream-Closed",
		"Stream-Forked-From", "Stream-Fork-Offset", "Stream-Fork-Sub-Offset",
		"Producer-Id", "Producer-Epoch", "Producer-Seq",
		"Pico-TTL", "Pico-Expires-At", "Pico-Closed", "Pico-Retention-Age", "Pico-Retention-Bytes",
		"Pico-Forked-From", "Pico-Fork-Seq", "Pico-Producer-Id", "Pico-Producer-Epoch", "Pico-Producer-Seq",
		"Pico-Match-Seq", "Pico-Trim-Seq",
	}, ", ")
	exposedHeaders = strings.Join([]string{
		"ETag", "Location", "Retry-After", "Allow", headerRequestID,
		"Stream-Next-Offset", "Stream-Cursor", "Stream-Up-To-Date", "Stream-Closed", "Stream-TTL",
		"Stream-Expires-At", "Stream-SSE-Data-Encoding",
		"Producer-Epoch", "Producer-Seq", "Producer-Expected-Seq", "Producer-Received-Seq",
		"Pico-Start-Seq", "Pico-Next-Seq", "Pico-Timestamp", "Pico-Closed", "Pico-Up-To-Date", "Pico-Cursor",
		"Pico-TTL", "Pico-Expires-At", "Pico-Stale-Ms", "Pico-Producer-Id", "Pico-Producer-Epoch",
		"Pico-Producer-Seq", "Pico-Expected-Seq", "Pico-Received-Seq",
	}, ", ")
)

func (a *API) setCommonHeaders(h http.Header, r *http.Request) {
	h.Set(headerRequestID, a.requests.of(r))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Access-Control-Allow-Origin", a.config.CORSOrigin)
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
}

func answerPreflight(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", allowedMethods)
	h.Set("Access-Control-Allow-Headers", allowedHeaders)
	h.Set("Access-Control-Max-Age", "86400")
	h.Set("Allow", allowedMethods)
	w.WriteHeader(http.StatusNoContent)
}

// recoverPanic turns a panic into a 500 and a log line. When the response has
// begun it can only be broken off, so that no client takes it for whole.
func (a *API) recoverPanic(e *exchange, r *http.Request, cause any) {
	if cause == nil {
		return
	}
	if cause == http.ErrAbortHandler { //nolint:errorlint // the sentinel itself is what panics with it mean
		panic(cause)
	}
	a.config.Logger.Error("a request panicked", "request_id", requestID(e), "method", r.Method,
		"path", r.URL.Path, "panic", cause, "stack", string(debug.Stack()))
	if e.status != 0 {
		panic(http.ErrAbortHandler)
	}
	writeInternalError(e, r)
}

// requestIDs names requests: those that carry a usable name keep it, so that a
// request can be followed through a proxy; others get one that no other request
// of any node has.
type requestIDs struct {
	prefix string
	last   *atomic.Uint64
}

func newRequestIDs() requestIDs {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	return requestIDs{prefix: hex.EncodeToString(random[:]) + "-", last: new(atomic.Uint64)}
}

func (ids requestIDs) of(r *http.Request) string {
	if given := r.Header.Get(headerRequestID); usableRequestID(given) {
		return given
	}
	return ids.prefix + strconv.FormatUint(ids.last.Add(1), 36)
}

func usableRequestID(id string) bool {
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return 1 <= len(id) && len(id) <= 64
}

// requestID is the id of the request that w answers.
func requestID(w http.ResponseWriter) string { return w.Header().Get(headerRequestID) }
