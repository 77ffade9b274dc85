package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// Bounds of a page of the list.
const (
	picoDefaultList = 1_000
	picoMaxList     = 10_000
)

// picoHead answers HEAD with all that is known about a stream.
func (a *API) picoHead(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	info, err := a.config.Streams.Head(r.Context(), name)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", cacheNever)
	h.Set("Content-Type", info.Config.ContentType)
	setNumber(h, wire.PicoStartSeq, info.Start)
	setNumber(h, wire.PicoNextSeq, info.Tail)
	setExpiry(h, info.Config.Expiry)
	setRetention(h, info.Config.Retention)
	setTrue(h, wire.PicoClosed, info.Closed)
	setPicoFork(h, &info)
	setStale(h, info)
	w.WriteHeader(http.StatusOK)
	return nil
}

func (a *API) picoDelete(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	if err := a.config.Streams.Delete(r.Context(), name); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", cacheNever)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// picoList answers GET of the root: a page of names in byte order.
func (a *API) picoList(w http.ResponseWriter, r *http.Request) error {
	request, err := parsePicoList(r)
	if err != nil {
		return err
	}
	page, err := a.config.Streams.List(r.Context(), request)
	if err != nil {
		return err
	}
	body := wire.ListBody{Streams: make([]wire.ListedStream, len(page.Streams)), HasMore: page.More}
	for i := range page.Streams {
		body.Streams[i] = listedStream(&page.Streams[i])
	}
	w.Header().Set("Cache-Control", cacheNever)
	writeJSONBody(w, http.StatusOK, body)
	return nil
}

func parsePicoList(r *http.Request) (stream.ListRequest, error) {
	query, err := queryOf(r)
	if err != nil {
		return stream.ListRequest{}, err
	}
	prefix, err := nameParameter(query, "prefix")
	if err != nil {
		return stream.ListRequest{}, err
	}
	after, err := nameParameter(query, "start_after")
	if err != nil {
		return stream.ListRequest{}, err
	}
	limit, err := numberParameter(query, "limit", 1<<32, picoDefaultList)
	if err != nil {
		return stream.ListRequest{}, err
	}
	if limit == 0 {
		limit = picoDefaultList
	}
	return stream.ListRequest{Prefix: prefix, StartAfter: stream.Name(after), Limit: int(min(limit, picoMaxList))}, nil
}

// nameParameter is a parameter that holds a name, or the beginning of one, as
// this protocol spells it; it is returned without the leading slash.
func nameParameter(query url.Values, name string) (string, error) {
	text, _, err := oneParameter(query, name)
	if err != nil || text == "" {
		return "", err
	}
	rest, ok := strings.CutPrefix(text, "/")
	if !ok {
		return "", stream.Errorf(stream.CodeBadRequest, "%s is %q; names begin with a slash", name, text)
	}
	return rest, nil
}

func listedStream(info *stream.Info) wire.ListedStream {
	listed := wire.ListedStream{
		Name:        "/" + string(info.Name),
		ContentType: info.Config.ContentType,
		StartSeq:    info.Start,
		NextSeq:     info.Tail,
		Closed:      info.Closed,
	}
	switch e := info.Config.Expiry; e.Kind {
	case stream.ExpiresIdle:
		listed.TTL = &e.TTL
	case stream.ExpiresAt:
		listed.ExpiresAt = formatInstant(e.At)
	case stream.ExpiresNever:
	}
	return listed
}
