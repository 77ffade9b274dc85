package httpapi

import (
	"net/http"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

const (
	picoStreamMethods = "GET, HEAD, PUT, POST, DELETE, OPTIONS"
	picoListMethods   = "GET, OPTIONS"
)

// servePico serves the Pico protocol: every path that is not below
// /v1/stream/. The path is the stream's name; the root alone is the list.
//
// Where the protocol leaves a choice, it is made so that nothing a client sends
// is silently given another meaning:
//
//   - A header or parameter that means something is refused when it comes twice.
//   - Pico-Closed is true or false, in any case; another value is 400.
//   - Without a Content-Type an append is one record of the stream's type.
//   - The content type of a batch packs a body and is never a stream's own: a
//     PUT with a batch makes a stream of the default type, or of a fork's
//     source's.
//   - A fork is named by the path of its source in this protocol. One that begins
//     with /v1/stream/ is 400, because no such path is Pico's.
//   - A bound of retention is at least 1. One that a PUT leaves out is not compared
//     with that of a stream which exists.
//   - A trim goes alone: 400 together with the headers of an append.
//   - A cap above its limit is lowered to it; a count or limit of 0 is the same
//     as none. Caps do not apply to event streams, whose events readers share.
//   - A place counted from the tail moves, so no cache keeps what is read there.
func (a *API) servePico(w http.ResponseWriter, r *http.Request) {
	if err := a.picoRoute(w, r); err != nil {
		a.refusePico(w, r, err)
	}
}

func (a *API) picoRoute(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Path == picoRoot {
		return a.picoRootMethod(w, r)
	}
	name, err := nameBelow(picoRoot, r)
	if err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet:
		return a.picoRead(w, r, name)
	case http.MethodPost:
		return a.picoPost(w, r, name)
	case http.MethodPut:
		return a.picoCreate(w, r, name)
	case http.MethodHead:
		return a.picoHead(w, r, name)
	case http.MethodDelete:
		return a.picoDelete(w, r, name)
	default:
		picoMethodNotAllowed(w, picoStreamMethods)
		return nil
	}
}

func (a *API) picoRootMethod(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		picoMethodNotAllowed(w, picoListMethods)
		return nil
	}
	return a.picoList(w, r)
}

func picoMethodNotAllowed(w http.ResponseWriter, allow string) {
	methodNotAllowed(w, allow, func(status int, code, message string) {
		writeJSONBody(w, status, wire.ErrorBody{Error: code, Message: message})
	})
}

// refusePico answers a request that failed. What the refusal knows goes into
// the headers, for programs that look only there, and into the body.
func (a *API) refusePico(w http.ResponseWriter, r *http.Request, err error) {
	known, refused := a.errorFields(w, r, err)
	body := wire.ErrorBody{Error: known.name, Message: refused.Message, Written: written(r, refused.Code)}
	h := w.Header()
	switch refused.Code {
	case stream.CodeInternal:
		body.RequestID = requestID(w)
	case stream.CodeTrimmed:
		body.EarliestSeq = &refused.Start
		setNumber(h, wire.PicoStartSeq, refused.Start)
	case stream.CodeFenced, stream.CodeEpochStart:
		setNumber(h, wire.PicoProducerEpoch, refused.Epoch)
	case stream.CodeSequenceGap:
		setNumber(h, wire.PicoExpectedSeq, refused.Expected)
		setNumber(h, wire.PicoReceivedSeq, refused.Received)
	case stream.CodeClosed:
		h.Set(wire.PicoClosed, "true")
		body.NextSeq = &refused.Tail
	case stream.CodeMatchFailed, stream.CodeBeyondTail, stream.CodeStreamSeq:
		body.NextSeq = &refused.Tail
	default: // its message says all there is
	}
	if body.NextSeq != nil {
		setNumber(h, wire.PicoNextSeq, *body.NextSeq)
	}
	writeJSONBody(w, known.status, body)
}

func setNumber[N ~uint64](h http.Header, name string, n N) {
	h.Set(name, strconv.FormatUint(uint64(n), 10))
}

// setTrue sets a header that is either "true" or absent.
func setTrue(h http.Header, name string, set bool) {
	if set {
		h.Set(name, "true")
	}
}
