package httpapi

import (
	"net/http"

	"github.com/picomq/picomq/stream"
)

func (a *API) durableRead(http.ResponseWriter, *http.Request, stream.Name) error {
	return stream.Errorf(stream.CodeUnsupported, "not answered yet")
}

func (a *API) durableAppend(http.ResponseWriter, *http.Request, stream.Name) error {
	return stream.Errorf(stream.CodeUnsupported, "not answered yet")
}

func (a *API) durableCreate(http.ResponseWriter, *http.Request, stream.Name) error {
	return stream.Errorf(stream.CodeUnsupported, "not answered yet")
}

func (a *API) durableHead(http.ResponseWriter, *http.Request, stream.Name) error {
	return stream.Errorf(stream.CodeUnsupported, "not answered yet")
}

func (a *API) durableDelete(http.ResponseWriter, *http.Request, stream.Name) error {
	return stream.Errorf(stream.CodeUnsupported, "not answered yet")
}
