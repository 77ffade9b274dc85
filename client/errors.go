package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// maxErrorBody bounds what is read of a refusal's body, in bytes.
const maxErrorBody = 64 << 10

// connectionError says what a broken connection means for the request.
func connectionError(r *request, err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return unanswered(stream.CodeUnavailable, "%v: the server cannot be reached: %w", r, bare(err))
	}
	err = bare(err)
	if r.reads() {
		return unanswered(stream.CodeUnavailable, "%v: the connection failed: %w", r, err)
	}
	return unanswered(stream.CodeOutcomeUnknown,
		"%v: the connection failed, and whether the request was carried out is unknown: %w", r, err)
}

// unanswered is an error of a server that said nothing, and so not when to try
// again either: the pauses are the client's own, which grow.
func unanswered(code stream.Code, format string, args ...any) error {
	e := stream.Errorf(code, format, args...)
	e.RetryAfter = 0
	return e
}

// bare is the error without the method and URL that net/http puts before it.
func bare(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// codesByName is the codes of error bodies. A name that stands for several
// codes gets the one that the answer's other fields choose in refusal.
var codesByName = map[string]stream.Code{
	wire.ErrorBadRequest:     stream.CodeBadRequest,
	wire.ErrorFenced:         stream.CodeFenced,
	wire.ErrorNotFound:       stream.CodeNotFound,
	wire.ErrorConflict:       stream.CodeConflict,
	wire.ErrorClosed:         stream.CodeClosed,
	wire.ErrorSequenceGap:    stream.CodeSequenceGap,
	wire.ErrorGone:           stream.CodeTrimmed,
	wire.ErrorMatchFailed:    stream.CodeMatchFailed,
	wire.ErrorTooLarge:       stream.CodeTooLarge,
	wire.ErrorOverloaded:     stream.CodeOverloaded,
	wire.ErrorUnavailable:    stream.CodeUnavailable,
	wire.ErrorNotImplemented: stream.CodeUnsupported,
}

// codesByStatus is for answers without a known name: of other servers, and of
// proxies.
var codesByStatus = map[int]stream.Code{
	http.StatusBadRequest:            stream.CodeBadRequest,
	http.StatusUnauthorized:          stream.CodeBadRequest,
	http.StatusForbidden:             stream.CodeFenced,
	http.StatusNotFound:              stream.CodeNotFound,
	http.StatusMethodNotAllowed:      stream.CodeBadRequest,
	http.StatusConflict:              stream.CodeConflict,
	http.StatusGone:                  stream.CodeTrimmed,
	http.StatusPreconditionFailed:    stream.CodeMatchFailed,
	http.StatusRequestEntityTooLarge: stream.CodeTooLarge,
	http.StatusTooManyRequests:       stream.CodeOverloaded,
	http.StatusNotImplemented:        stream.CodeUnsupported,
	http.StatusBadGateway:            stream.CodeOutcomeUnknown,
	http.StatusServiceUnavailable:    stream.CodeUnavailable,
	http.StatusGatewayTimeout:        stream.CodeOutcomeUnknown,
}

// refusal makes the error of a response that is no success.
func refusal(r *request, response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody)) // what cannot be read is missing from the message
	body := errorBody(text)
	code, known := codesByName[body.Error]
	if !known {
		code = codesByStatus[response.StatusCode] // 0 is CodeInternal
	}
	if code == stream.CodeTrimmed && saysDeleted(r, response.Header, &body) {
		code = stream.CodeDeleted
	}
	if code == stream.CodeUnavailable && !r.reads() && body.Written != wire.WrittenNo {
		code = stream.CodeOutcomeUnknown // also where a proxy, or an older server, does not say
	}
	var e *stream.Error
	switch {
	case code == stream.CodeNotFound && r.name != "" && !isForeign(response, text, &body):
		e = stream.Errorf(code, "there is no stream %q", cmp.Or(r.parent, r.name))
	case code == stream.CodeDeleted && len(text) == 0 && !isForeign(response, text, &body):
		e = stream.Errorf(code, "the stream %q was deleted, and forks of it keep its name; delete them too, or use another name", r.name)
	case body.Message == "":
		e = stream.Errorf(code, "%v: %s", r, plainMessage(response, text))
	default:
		e = stream.Errorf(code, "%v: %s", r, body.Message)
	}
	setFields(e, response.Header, &body)
	return e
}

// isForeign tells whether a refusal looks like a plain web server's. An answer
// to HEAD has no body, so that only its type can tell.
func isForeign(response *http.Response, text []byte, body *wire.ErrorBody) bool {
	return body.Error == "" && (strings.HasPrefix(response.Header.Get("Content-Type"), "text/") || len(text) > 0)
}

// saysDeleted tells whether a refusal with 410 is about the whole stream, and not
// only about records of it that were trimmed. Those Pico gives with the first one
// that is retained; in Durable Streams only a read and a fork at an offset meet
// them, and such a read does not say which of both it met.
func saysDeleted(r *request, header http.Header, body *wire.ErrorBody) bool {
	offset := r.query.Get("offset")
	switch {
	case r.method == http.MethodPut:
		return false
	case r.method != http.MethodGet || offset == "-1" || offset == "now":
		return true
	default:
		return offset == "" && body.EarliestSeq == nil && header.Get(wire.PicoStartSeq) == ""
	}
}

// setFields fills in what headers and body tell, and makes the code precise
// where they show which of several it is.
func setFields(e *stream.Error, header http.Header, body *wire.ErrorBody) {
	if body.NextSeq != nil {
		e.Tail = *body.NextSeq
	} else if tail, err := wire.ParseToken(header.Get(wire.StreamNextOffset)); err == nil {
		e.Tail = tail
	}
	if body.EarliestSeq != nil {
		e.Start = *body.EarliestSeq
	}
	e.Closed = isTrue(first(header, wire.PicoClosed, wire.StreamClosed))
	e.Epoch = decimal(first(header, wire.PicoProducerEpoch, wire.ProducerEpoch))
	e.RetryAfter = retryAfter(header.Get("Retry-After"))
	expected := first(header, wire.PicoExpectedSeq, wire.ProducerExpectedSeq)
	e.Expected = decimal(expected)
	e.Received = decimal(first(header, wire.PicoReceivedSeq, wire.ProducerReceivedSeq))
	if e.Code == stream.CodeConflict {
		switch {
		case e.Closed:
			e.Code = stream.CodeClosed
		case expected != "":
			e.Code = stream.CodeSequenceGap
		}
	}
}

// first is the value of the first of the headers that is there.
func first(header http.Header, names ...string) string {
	for _, name := range names {
		if value := header.Get(name); value != "" {
			return value
		}
	}
	return ""
}

func isTrue(value string) bool { return strings.EqualFold(value, "true") }

// decimal is a number that is only information: 0 when it is missing or none.
func decimal(value string) uint64 {
	n, err := wire.ParseDecimal(value)
	if err != nil {
		return 0
	}
	return n
}

// retryAfter reads the header in either of its forms, at most an hour.
func retryAfter(value string) time.Duration {
	var pause time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		pause = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		pause = time.Until(at)
	}
	return min(max(pause, 0), time.Hour)
}

// errorBody reads the body of either protocol; what is neither is empty.
func errorBody(text []byte) wire.ErrorBody {
	var pico wire.ErrorBody
	if json.Unmarshal(text, &pico) == nil {
		return pico
	}
	var durable struct {
		Error struct{ Code, Message, Written string }
	}
	if json.Unmarshal(text, &durable) == nil {
		return wire.ErrorBody{Error: durable.Error.Code, Message: durable.Error.Message, Written: durable.Error.Written}
	}
	return wire.ErrorBody{}
}

// askAddress ends the message of what no server of streams answers.
const askAddress = "is this a PicoMQ server's public address?"

// plainMessage is for a body that is no error body: a proxy's page, or nothing,
// as in every answer to HEAD.
func plainMessage(response *http.Response, text []byte) string {
	const most = 200
	message := strings.ToValidUTF8(strings.TrimSpace(string(text)), "?")
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "…"
	}
	if message == "" {
		message = response.Status
	} else {
		message = response.Status + ": " + message
	}
	if response.StatusCode == http.StatusNotFound {
		message += "; " + askAddress
	}
	return message
}
