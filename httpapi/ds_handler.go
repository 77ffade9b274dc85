package httpapi

import (
	"net/http"
	"strings"

	"github.com/picomq/picomq/stream"
)

// serveDurable serves the Durable Streams protocol: everything below
// /v1/stream/.
func (a *API) serveDurable(w http.ResponseWriter, r *http.Request) {
	if err := a.durableRoute(w, r); err != nil {
		a.refuseDurable(w, r, err)
	}
}

func (a *API) durableRoute(w http.ResponseWriter, r *http.Request) error {
	if isReserved(r) {
		return stream.Errorf(stream.CodeNotFound, "this server has no control interfaces below %s%s",
			durableRoot, stream.ReservedSegment)
	}
	name, err := nameBelow(durableRoot, r)
	if err != nil {
		return err
	}
	return a.durableMethod(w, r, name)
}

// isReserved tells whether the path lies below the segment of the protocol's
// control interfaces.
func isReserved(r *http.Request) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, durableRoot), "/")
	return first == stream.ReservedSegment
}

const durableMethods = "GET, HEAD, PUT, POST, DELETE, OPTIONS"

func (a *API) durableMethod(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	switch r.Method {
	case http.MethodGet:
		return a.durableRead(w, r, name)
	case http.MethodPost:
		return a.durableAppend(w, r, name)
	case http.MethodPut:
		return a.durableCreate(w, r, name)
	case http.MethodHead:
		return a.durableHead(w, r, name)
	case http.MethodDelete:
		return a.durableDelete(w, r, name)
	default:
		methodNotAllowed(w, durableMethods, func(status int, code, message string) {
			writeDurableError(w, status, durableErrorFields{Code: code, Message: message})
		})
		return nil
	}
}
