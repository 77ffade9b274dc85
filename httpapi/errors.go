package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// refusal is how a [stream.Code] looks on the wire.
type refusal struct {
	status int
	name   string // the machine-readable code in the body of both protocols
}

var refusals = map[stream.Code]refusal{
	stream.CodeInternal:       {http.StatusInternalServerError, wire.ErrorInternal},
	stream.CodeBadRequest:     {http.StatusBadRequest, wire.ErrorBadRequest},
	stream.CodeNotFound:       {http.StatusNotFound, wire.ErrorNotFound},
	stream.CodeDeleted:        {http.StatusGone, wire.ErrorGone},
	stream.CodeTrimmed:        {http.StatusGone, wire.ErrorGone},
	stream.CodeBeyondTail:     {http.StatusBadRequest, wire.ErrorBadRequest},
	stream.CodeConflict:       {http.StatusConflict, wire.ErrorConflict},
	stream.CodeTypeMismatch:   {http.StatusConflict, wire.ErrorConflict},
	stream.CodeClosed:         {http.StatusConflict, wire.ErrorClosed},
	stream.CodeFenced:         {http.StatusForbidden, wire.ErrorFenced},
	stream.CodeEpochStart:     {http.StatusBadRequest, wire.ErrorBadRequest},
	stream.CodeSequenceGap:    {http.StatusConflict, wire.ErrorSequenceGap},
	stream.CodeMatchFailed:    {http.StatusPreconditionFailed, wire.ErrorMatchFailed},
	stream.CodeStreamSeq:      {http.StatusConflict, wire.ErrorConflict},
	stream.CodeTooLarge:       {http.StatusRequestEntityTooLarge, wire.ErrorTooLarge},
	stream.CodeOverloaded:     {http.StatusServiceUnavailable, wire.ErrorOverloaded},
	stream.CodeUnavailable:    {http.StatusServiceUnavailable, wire.ErrorUnavailable},
	stream.CodeOutcomeUnknown: {http.StatusServiceUnavailable, wire.ErrorUnavailable},
	stream.CodeUnsupported:    {http.StatusNotImplemented, wire.ErrorNotImplemented},
}

// refusalOf is the one place where codes become statuses.
func refusalOf(code stream.Code) refusal {
	if known, ok := refusals[code]; ok {
		return known
	}
	return refusals[stream.CodeInternal]
}

// errorFields is what both protocols tell about an error: the wire's status and
// code name, and the refusal itself, whose message and fields are for the
// client. An internal error is logged with the request's id, which the client
// gets too; its message is the client's only if it was made for one (it names the
// object that is spoiled), because others say what is nobody's business. It also
// sets the headers that do not depend on the protocol: Cache-Control and
// Retry-After.
func (a *API) errorFields(w http.ResponseWriter, r *http.Request, err error) (refusal, *stream.Error) {
	var refused *stream.Error
	if !errors.As(err, &refused) || refused.Code == stream.CodeInternal {
		a.logInternal(w, r, err)
		refused = internalError(w, refused)
	}
	if refused.Code != stream.CodeInternal || !clientLeft(r) {
		a.config.Metrics.refused(refused.Code)
	}
	known := refusalOf(refused.Code)
	w.Header().Set("Cache-Control", "no-store")
	if known.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter(refused.RetryAfter))
	}
	return known, refused
}

// written is what a refusal says about whether a write was carried out.
func written(r *http.Request, code stream.Code) string {
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return ""
	case code == stream.CodeOutcomeUnknown:
		return wire.WrittenUnknown
	case code == stream.CodeOverloaded || code == stream.CodeUnavailable:
		return wire.WrittenNo
	default:
		return ""
	}
}

// internalError is what a client is told of a fault of ours; known may be nil.
func internalError(w http.ResponseWriter, known *stream.Error) *stream.Error {
	what := "an internal error"
	if known != nil {
		what = known.Message
	}
	return stream.Errorf(stream.CodeInternal, "%s; the server's log says more under request id %s", what, requestID(w))
}

// clientLeft tells whether the client of a request has gone. Errors that come
// after that mean nothing, and nobody gets the answer.
func clientLeft(r *http.Request) bool { return r.Context().Err() != nil }

// logInternal logs an error that is nobody's refusal.
func (a *API) logInternal(w http.ResponseWriter, r *http.Request, err error) {
	level := slog.LevelError
	if clientLeft(r) {
		level = slog.LevelDebug
	}
	a.config.Logger.Log(r.Context(), level, "a request failed", "request_id", requestID(w),
		"method", r.Method, "path", r.URL.Path, "error", err)
}

// retryAfter is a duration as the header's whole seconds, at least 1.
func retryAfter(d time.Duration) string {
	seconds := int64((d + time.Second - 1) / time.Second)
	return strconv.FormatInt(max(seconds, 1), 10)
}

// methodNotAllowed refuses a method with 405; write is the protocol's way to
// write an error body.
func methodNotAllowed(w http.ResponseWriter, allow string, write func(status int, code, message string)) {
	w.Header().Set("Allow", allow)
	w.Header().Set("Cache-Control", "no-store")
	write(http.StatusMethodNotAllowed, wire.ErrorMethodNotAllowed, "the method is not allowed here; use one of "+allow)
}

// writeInternalError answers a panic in the protocol of the request.
func writeInternalError(w http.ResponseWriter, r *http.Request) {
	refused := internalError(w, nil)
	known := refusalOf(refused.Code)
	w.Header().Set("Cache-Control", "no-store")
	if isDurable(r) {
		writeDurableError(w, known.status, durableErrorFields{Code: known.name, Message: refused.Message})
		return
	}
	writeJSONBody(w, known.status, wire.ErrorBody{Error: known.name, Message: refused.Message, RequestID: requestID(w)})
}
