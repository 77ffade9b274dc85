package httpapi

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/httpapi/wire"
)

// headerRequestID names a request in the response and in the log.
const headerRequestID = "X-Request-Id"

// middleware is what happens around every request, whatever its path: it gets
// an id, headers that all responses carry and a bound on its time; preflights
// are answered; panics become 500; and it is counted.
func (a *API) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		e := &exchange{ResponseWriter: w, timeout: a.config.WriteTimeout}
		if r.ProtoMajor == 1 {
			e.last = &a.retiring
		}
		a.setCommon(e.Header(), r)
		if e.in.receive(w, r, a.config.BodyTimeout) {
			defer e.in.settle() // whatever happens: net/http reads on by itself
			e.served = *r       // net/http knows its own body by its type
			e.served.Body = &e.in
			r = &e.served
		}
		defer func() { a.answered(r, e, time.Since(began)) }()
		defer func() { a.recoverPanic(e, r, recover()) }()
		if r.Method == http.MethodOptions {
			answerPreflight(e)
			return
		}
		next.ServeHTTP(e, r)
		if e.rest != nil {
			e.rest(r)
		}
	})
}

// answered counts a request that has its answer.
func (a *API) answered(r *http.Request, e *exchange, took time.Duration) {
	if e.held != 0 {
		a.bodies.Add(-e.held)
	}
	a.unsubscribe(e)
	a.config.Metrics.answered(r, e, took)
	if !a.config.Logger.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	a.config.Logger.LogAttrs(r.Context(), slog.LevelDebug, "request", slog.String("request_id", requestID(e)),
		slog.String("method", r.Method), slog.String("target", r.URL.RequestURI()), slog.Int("status", e.status),
		slog.Int64("bytes", e.written), slog.Duration("took", took))
}

// The CORS lists name every header of both protocols that a browser may send
// and read.
var (
	allowedMethods = strings.Join([]string{
		http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodOptions,
	}, ", ")
	allowedHeaders = strings.Join([]string{
		"Content-Type", "Authorization", "If-None-Match", wire.LastEventID, headerRequestID,
		wire.StreamSeq, wire.StreamTTL, wire.StreamExpiresAt, wire.StreamClosed,
		wire.StreamForkedFrom, wire.StreamForkOffset, wire.StreamForkSubOffset,
		wire.ProducerID, wire.ProducerEpoch, wire.ProducerSeq,
		wire.PicoTTL, wire.PicoExpiresAt, wire.PicoClosed, wire.PicoRetentionAge, wire.PicoRetentionBytes,
		wire.PicoForkedFrom, wire.PicoForkSeq, wire.PicoMatchSeq, wire.PicoTrimSeq,
		wire.PicoProducerID, wire.PicoProducerEpoch, wire.PicoProducerSeq,
	}, ", ")
	exposedHeaders = strings.Join([]string{
		"ETag", "Location", "Retry-After", "Allow", headerRequestID,
		wire.StreamNextOffset, wire.StreamCursor, wire.StreamUpToDate, wire.StreamClosed, wire.StreamTTL,
		wire.StreamExpiresAt, wire.StreamSSEDataEncoding,
		wire.ProducerEpoch, wire.ProducerSeq, wire.ProducerExpectedSeq, wire.ProducerReceivedSeq,
		wire.PicoStartSeq, wire.PicoNextSeq, wire.PicoTimestamp, wire.PicoClosed, wire.PicoUpToDate, wire.PicoCursor,
		wire.PicoTTL, wire.PicoExpiresAt, wire.PicoRetentionAge, wire.PicoRetentionBytes,
		wire.PicoForkedFrom, wire.PicoForkSeq, wire.PicoForkSubOffset, wire.PicoForks,
		wire.PicoStaleMs, wire.PicoExpectedSeq, wire.PicoReceivedSeq,
		wire.PicoProducerID, wire.PicoProducerEpoch, wire.PicoProducerSeq,
	}, ", ")
)

// commonHeaders are on all responses, errors included. Responses share the
// values: they hold one element each, so that adding to one copies it.
type commonHeaders struct {
	noSniff, crossOrigin   []string
	origin, exposedHeaders []string
}

func newCommonHeaders(config Config) commonHeaders {
	return commonHeaders{
		noSniff: []string{"nosniff"}, crossOrigin: []string{"cross-origin"},
		origin: []string{config.CORSOrigin}, exposedHeaders: []string{exposedHeaders},
	}
}

// setCommon begins a response. The kilobyte that says what browsers may do with
// it goes everywhere but to the appends of others: a browser names its origin, and
// nothing keeps an answer to POST that it could come upon later.
func (a *API) setCommon(h http.Header, r *http.Request) {
	h["X-Content-Type-Options"] = a.common.noSniff
	h["Cross-Origin-Resource-Policy"] = a.common.crossOrigin
	h[headerRequestID] = []string{a.requests.of(r)}
	if r.Method == http.MethodPost && r.Header["Origin"] == nil {
		return
	}
	h["Access-Control-Allow-Origin"] = a.common.origin
	h["Access-Control-Expose-Headers"] = a.common.exposedHeaders
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
