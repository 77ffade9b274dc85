package httpapi

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// durableError is the body of every error of the Durable Streams protocol.
type durableError struct {
	Error durableErrorFields `json:"error"`
}

type durableErrorFields struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Written string `json:"written,omitempty"` // with 503 to a write: one of wire's Written constants
}

func writeDurableError(w http.ResponseWriter, status int, fields durableErrorFields) {
	writeJSONBody(w, status, durableError{fields})
}

// refuseDurable answers a request that failed, with the headers that let its
// client go on.
func (a *API) refuseDurable(w http.ResponseWriter, r *http.Request, err error) {
	known, refused := a.errorFields(w, r, err)
	h := w.Header()
	message := refused.Message
	switch refused.Code {
	case stream.CodeClosed:
		setDurableClosed(h, true)
		setDurableOffset(h, refused.Tail)
	case stream.CodeStreamSeq:
		setDurableOffset(h, refused.Tail)
	case stream.CodeFenced, stream.CodeEpochStart:
		h.Set(wire.ProducerEpoch, strconv.FormatUint(refused.Epoch, 10))
	case stream.CodeSequenceGap:
		h.Set(wire.ProducerExpectedSeq, strconv.FormatUint(refused.Expected, 10))
		h.Set(wire.ProducerReceivedSeq, strconv.FormatUint(refused.Received, 10))
	case stream.CodeTrimmed:
		message = fmt.Sprintf("%s; the earliest offset is %s", message, wire.FormatToken(refused.Start))
	case stream.CodeBeyondTail:
		message = fmt.Sprintf("%s; the tail is %s", message, wire.FormatToken(refused.Tail))
	default:
	}
	writeDurableError(w, known.status, durableErrorFields{known.name, message, written(r, refused.Code)})
}
