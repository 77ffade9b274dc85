package httpapi

import (
	"net/http"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// durableCreate is PUT: 201 for a new stream, 200 for one that exists with the
// same configuration, whose body is then ignored.
func (a *API) durableCreate(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	request, err := durableCreateHeaders(r)
	if err != nil {
		return err
	}
	if err := a.addDurableContent(w, r, request); err != nil {
		return err
	}
	created, err := a.config.Streams.Create(r.Context(), name, request)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", created.Config.ContentType)
	h.Set("Cache-Control", cacheNever)
	setDurableOffset(h, created.Tail)
	setDurableClosed(h, created.Closed)
	if !created.New {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	h.Set("Location", location(r))
	w.WriteHeader(http.StatusCreated)
	return nil
}

// durableCreateHeaders is what the headers of a PUT ask for. What a fork leaves
// out is its source's.
func durableCreateHeaders(r *http.Request) (*stream.CreateRequest, error) {
	if err := refuseForeign(r, true); err != nil {
		return nil, err
	}
	contentType, err := contentTypeOf(r.Header)
	if err != nil {
		return nil, err
	}
	expiry, err := durableExpiry(r.Header)
	if err != nil {
		return nil, err
	}
	closed, err := durableClosed(r.Header)
	if err != nil {
		return nil, err
	}
	fork, err := durableFork(r.Header)
	if contentType == "" && fork == nil {
		contentType = stream.DefaultContentType
	}
	return &stream.CreateRequest{
		Config: stream.Config{ContentType: contentType, Expiry: expiry},
		Closed: closed,
		Fork:   fork,
	}, err
}

// addDurableContent completes a create with its body. How that of a fork without
// a content type is cut into records is known only once its source is found,
// while the create is under way: it is kept until then.
func (a *API) addDurableContent(w http.ResponseWriter, r *http.Request, request *stream.CreateRequest) error {
	body, err := a.readBody(w, r)
	if err != nil || len(body) == 0 {
		return err
	}
	parse := func(contentType string) ([]stream.Record, error) {
		return durableRecords(contentType, body, a.reserve(w))
	}
	request.JSONChecked = true // by durableRecords, where it is JSON
	if request.Config.ContentType == "" {
		request.Parse = parse
		return nil
	}
	request.Records, err = parse(request.Config.ContentType)
	return err
}

// durableRecords are the records of a body of some content type: one for each
// message of a JSON body, otherwise the body itself.
func durableRecords(contentType string, body []byte, reserve wire.Reserve) ([]stream.Record, error) {
	switch {
	case len(body) == 0:
		return nil, nil
	case stream.IsJSON(contentType):
		return splitJSON(body, reserve)
	default:
		return []stream.Record{{Body: body}}, nil
	}
}

// durableAppend is POST: an append, a close, or both in one step.
func (a *API) durableAppend(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	if err := refuseForeign(r, true); err != nil {
		return err
	}
	if err := refuseDurableFork(r); err != nil {
		return err
	}
	request, err := durableAppendHeaders(r.Header)
	if err != nil {
		return err
	}
	body, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	if err := addDurableBody(request, body, a.reserve(w)); err != nil {
		return err
	}
	appended, err := a.config.Streams.Append(r.Context(), name, request)
	if err != nil {
		return err
	}
	doneWithBody(w)
	answerDurableAppend(w, request, appended)
	return nil
}

func durableAppendHeaders(h http.Header) (*stream.AppendRequest, error) {
	producer, err := durableProducerHeaders.read(h)
	if err != nil {
		return nil, err
	}
	seq, err := streamSeq(h)
	if err != nil {
		return nil, err
	}
	closing, err := durableClosed(h)
	if err != nil {
		return nil, err
	}
	contentType, err := contentTypeOf(h)
	return &stream.AppendRequest{
		ContentType: contentType,
		Producer:    producer,
		StreamSeq:   seq,
		Close:       closing,
		JSONChecked: stream.IsJSON(contentType),
	}, err
}

// addDurableBody completes an append with its body. Without one it must be a
// close, whose content type means nothing.
func addDurableBody(request *stream.AppendRequest, body []byte, reserve wire.Reserve) (err error) {
	switch {
	case len(body) == 0 && request.Close:
		request.ContentType = ""
		return nil
	case len(body) == 0:
		return stream.Errorf(stream.CodeBadRequest,
			"an append needs a body; to close the stream without one send %s: true", wire.StreamClosed)
	case request.ContentType == "":
		return stream.Errorf(stream.CodeBadRequest, "an append needs a Content-Type, the stream's")
	}
	request.Records, err = durableRecords(request.ContentType, body, reserve)
	if err == nil && len(request.Records) == 0 {
		return stream.Errorf(stream.CodeBadRequest, "an empty JSON array appends nothing; send at least one message")
	}
	return err
}

// answerDurableAppend tells a producer's new append (200) from its duplicate
// (204); everything else that succeeds is 204.
func answerDurableAppend(w http.ResponseWriter, request *stream.AppendRequest, appended stream.Appended) {
	h := w.Header()
	h.Set("Cache-Control", cacheNever)
	setDurableOffset(h, appended.Next)
	setDurableClosed(h, appended.Closed)
	status := http.StatusNoContent
	if request.Producer != nil {
		h.Set(wire.ProducerEpoch, strconv.FormatUint(appended.Producer.Epoch, 10))
		h.Set(wire.ProducerSeq, strconv.FormatUint(appended.Producer.Seq, 10))
		if len(request.Records) > 0 && !appended.Duplicate {
			status = http.StatusOK
		}
	}
	w.WriteHeader(status)
}

// durableDelete is DELETE.
func (a *API) durableDelete(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	if err := a.config.Streams.Delete(r.Context(), name); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", cacheNever)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
