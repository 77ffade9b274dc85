package httpapi

import (
	"math"
	"net/http"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// picoCreate answers PUT: a stream, with its first records if there is a body.
func (a *API) picoCreate(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	request, err := a.picoCreateRequest(w, r)
	if err != nil {
		return err
	}
	created, err := a.config.Streams.Create(r.Context(), name, request)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", cacheNever)
	h.Set("Content-Type", created.Config.ContentType)
	setNumber(h, wire.PicoNextSeq, created.Tail)
	setTrue(h, wire.PicoClosed, created.Closed)
	setExpiry(h, created.Config.Expiry)
	setRetention(h, created.Config.Retention)
	if !created.New {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	h.Set("Location", location(r))
	w.WriteHeader(http.StatusCreated)
	return nil
}

func (a *API) picoCreateRequest(w http.ResponseWriter, r *http.Request) (*stream.CreateRequest, error) {
	if err := refuseForeign(r, false); err != nil {
		return nil, err
	}
	contentType, err := contentTypeOf(r.Header)
	if err != nil {
		return nil, err
	}
	expiry, err := picoExpiry(r)
	if err != nil {
		return nil, err
	}
	retention, err := picoRetention(r)
	if err != nil {
		return nil, err
	}
	closed, err := picoClosed(r)
	if err != nil {
		return nil, err
	}
	fork, err := picoFork(r)
	if err != nil {
		return nil, err
	}
	records, err := a.picoRecords(w, r, contentType)
	if err != nil {
		return nil, err
	}
	// A batch's content type says how the body is packed, so it cannot say what
	// the stream holds as well.
	if isBatch(contentType) {
		contentType = ""
	}
	if contentType == "" && fork == nil {
		contentType = stream.DefaultContentType
	}
	return &stream.CreateRequest{
		Config:  stream.Config{ContentType: contentType, Expiry: expiry, Retention: retention},
		Closed:  closed,
		Records: records,
		Fork:    fork,
	}, nil
}

// isBatch tells whether a content type is that of a batch of records.
func isBatch(contentType string) bool {
	media := stream.MediaType(contentType)
	return media == wire.TypeBatch || media == wire.TypeBatchJSON
}

// picoRecords reads the records of a request: a batch's, or one that is the
// body as it stands. No body is no record, also where a batch is announced.
func (a *API) picoRecords(w http.ResponseWriter, r *http.Request, contentType string) ([]stream.Record, error) {
	body, err := a.readBody(w, r)
	if err != nil || len(body) == 0 {
		return nil, err
	}
	switch stream.MediaType(contentType) {
	case wire.TypeBatch:
		return wire.DecodeBinaryAppend(body, a.reserve(w))
	case wire.TypeBatchJSON:
		return wire.DecodeJSONAppend(body, a.reserve(w))
	default:
		return []stream.Record{{Body: body}}, nil
	}
}

// picoPost answers POST: a trim where the header says so, else an append.
func (a *API) picoPost(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	if err := refuseForeign(r, false); err != nil {
		return err
	}
	to, trim, err := picoNumber(r, wire.PicoTrimSeq, math.MaxUint64)
	if err != nil {
		return err
	}
	if trim {
		return a.picoTrim(w, r, name, stream.Offset(to))
	}
	return a.picoAppend(w, r, name)
}

// picoAppendHeaders are those that mean nothing on a trim.
var picoAppendHeaders = []string{
	wire.PicoClosed, wire.PicoMatchSeq, wire.PicoProducerID, wire.PicoProducerEpoch, wire.PicoProducerSeq,
}

func (a *API) picoTrim(w http.ResponseWriter, r *http.Request, name stream.Name, to stream.Offset) error {
	for _, other := range picoAppendHeaders {
		if len(r.Header.Values(other)) > 0 {
			return stream.Errorf(stream.CodeBadRequest, "%s goes alone, without %s; send two requests", wire.PicoTrimSeq, other)
		}
	}
	if err := refuseBody(r, "a trim"); err != nil {
		return err
	}
	info, err := a.config.Streams.Trim(r.Context(), name, min(to, stream.MaxOffset))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", cacheNever)
	setNumber(h, wire.PicoStartSeq, info.Start)
	setNumber(h, wire.PicoNextSeq, info.Tail)
	setTrue(h, wire.PicoClosed, info.Closed)
	w.WriteHeader(http.StatusOK)
	return nil
}

func (a *API) picoAppend(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	request, err := a.picoAppendRequest(w, r)
	if err != nil {
		return err
	}
	done, err := a.config.Streams.Append(r.Context(), name, request)
	if err != nil {
		return err
	}
	doneWithBody(w)
	h := w.Header()
	h.Set("Cache-Control", cacheNever)
	setNumber(h, wire.PicoNextSeq, done.Next)
	if len(request.Records) > 0 && done.FirstKnown {
		setNumber(h, wire.PicoStartSeq, done.First)
	}
	if len(request.Records) > 0 && !done.Duplicate {
		h.Set(wire.PicoTimestamp, strconv.FormatInt(int64(done.Time), 10))
	}
	setTrue(h, wire.PicoClosed, done.Closed)
	setPicoProducer(h, request.Producer)
	w.WriteHeader(http.StatusOK)
	return nil
}

func (a *API) picoAppendRequest(w http.ResponseWriter, r *http.Request) (*stream.AppendRequest, error) {
	contentType, err := contentTypeOf(r.Header)
	if err != nil {
		return nil, err
	}
	closing, err := picoClosed(r)
	if err != nil {
		return nil, err
	}
	producer, err := picoProducerHeaders.read(r.Header)
	if err != nil {
		return nil, err
	}
	match, err := picoMatch(r)
	if err != nil {
		return nil, err
	}
	records, err := a.picoRecords(w, r, contentType)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 && !closing {
		return nil, stream.Errorf(stream.CodeBadRequest,
			"the body is empty; send a record, a batch, or %s: true to close the stream", wire.PicoClosed)
	}
	if isBatch(contentType) || len(records) == 0 {
		contentType = "" // it says nothing about the stream
	}
	return &stream.AppendRequest{
		ContentType: contentType,
		Records:     records,
		Producer:    producer,
		Match:       match,
		Close:       closing,
	}, nil
}
