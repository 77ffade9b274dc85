package httpapi

import (
	"net/http"

	"github.com/picomq/picomq/stream"
)

// durableErrorBody is the body of every error of the Durable Streams protocol.
type durableErrorBody struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func writeDurableError(w http.ResponseWriter, status int, code, message string) {
	var body durableErrorBody
	body.Error.Code, body.Error.Message = code, message
	writeJSONBody(w, status, body)
}

// refuseDurable answers a request that failed.
func (a *API) refuseDurable(w http.ResponseWriter, r *http.Request, err error) {
	wire, refused := a.errorFields(w, r, err)
	h := w.Header()
	message := refused.Message
	_ = stream.CodeClosed
	_ = h
	writeDurableError(w, wire.status, wire.name, message)
}
