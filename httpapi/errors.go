package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/picomq/picomq/stream"
)

// refusal is how a [stream.Code] looks on the wire.
type refusal struct {
	status int
	name   string // the machine-readable code in the body of both protocols
}

var refusals = map[stream.Code]refusal{
	stream.CodeInternal:       {http.StatusInternalServerError, "internal"},
	stream.CodeBadRequest:     {http.StatusBadRequest, "bad_request"},
	stream.CodeNotFound:       {http.StatusNotFound, "not_found"},
	stream.CodeTrimmed:        {http.StatusGone, "gone"},
	stream.CodeBeyondTail:     {http.StatusBadRequest, "bad_request"},
	stream.CodeConflict:       {http.StatusConflict, "conflict"},
	stream.CodeTypeMismatch:   {http.StatusConflict, "conflict"},
	stream.CodeClosed:         {http.StatusConflict, "closed"},
	stream.CodeFenced:         {http.StatusForbidden, "fenced"},
	stream.CodeEpochStart:     {http.StatusBadRequest, "bad_request"},
	stream.CodeSequenceGap:    {http.StatusConflict, "sequence_gap"},
	stream.CodeMatchFailed:    {http.StatusPreconditionFailed, "match_failed"},
	stream.CodeStreamSeq:      {http.StatusConflict, "conflict"},
	stream.CodeTooLarge:       {http.StatusRequestEntityTooLarge, "too_large"},
	stream.CodeOverloaded:     {http.StatusServiceUnavailable, "overloaded"},
	stream.CodeUnavailable:    {http.StatusServiceUnavailable, "unavailable"},
	stream.CodeOutcomeUnknown: {http.StatusServiceUnavailable, "unavailable"},
	stream.CodeUnsupported:    {http.StatusNotImplemented, "not_implemented"},
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
// client. An error that is no refusal is logged with the request's id and
// becomes an internal one that carries only that id. It also sets the headers
// that do not depend on the protocol: Cache-Control and Retry-After.
func (a *API) errorFields(w http.ResponseWriter, r *http.Request, err error) (refusal, *stream.Error) {
	var refused *stream.Error
	if !errors.As(err, &refused) || refused.Code == stream.CodeInternal {
		a.logInternal(w, r, err)
		refused = internalError(w)
	}
	a.config.Metrics.refused(refused.Code)
	wire := refusalOf(refused.Code)
	w.Header().Set("Cache-Control", "no-store")
	if wire.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter(refused.RetryAfter))
	}
	return wire, refused
}

func internalError(w http.ResponseWriter) *stream.Error {
	return stream.Errorf(stream.CodeInternal,
		"an internal error; the server's log says more under request id %s", requestID(w))
}

// logInternal logs an error that is nobody's refusal. A client that went away
// makes such errors too, and they mean nothing.
func (a *API) logInternal(w http.ResponseWriter, r *http.Request, err error) {
	level := slog.LevelError
	if r.Context().Err() != nil {
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
	write(http.StatusMethodNotAllowed, "method_not_allowed", "the method is not allowed here; use one of "+allow)
}

// writeInternalError answers a panic in the protocol of the request.
func writeInternalError(w http.ResponseWriter, r *http.Request) {
	refused := internalError(w)
	wire := refusalOf(refused.Code)
	w.Header().Set("Cache-Control", "no-store")
	if isDurable(r) {
		writeDurableError(w, wire.status, wire.name, refused.Message)
		return
	}
	writeJSONBody(w, wire.status, struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}{wire.name, refused.Message})
}
