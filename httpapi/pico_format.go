package httpapi

import (
	"net/http"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// picoFormat is a way to write the records of a read.
type picoFormat struct {
	name        string // of the parameter format
	contentType string // empty: the stream's own
	encode      func(dst []byte, runs []stream.Run) []byte
}

var (
	formatJSON   = picoFormat{name: "json", contentType: wire.TypeJSON, encode: wire.EncodeJSONRead}
	formatBinary = picoFormat{name: "binary", contentType: wire.TypeBatch, encode: wire.EncodeBinaryRead}
	formatRaw    = picoFormat{name: "raw", encode: wire.EncodeRaw}
)

func picoFormatOf(name string) (picoFormat, error) {
	for _, f := range []picoFormat{formatJSON, formatBinary, formatRaw} {
		if f.name == name {
			return f, nil
		}
	}
	return picoFormat{}, stream.Errorf(stream.CodeBadRequest, "format is %q; give json, binary or raw, or leave it out for json", name)
}

// writePicoChunk answers with the records of a chunk.
func (a *API) writePicoChunk(w http.ResponseWriter, f picoFormat, c *stream.Chunk) error {
	contentType := f.contentType
	if contentType == "" {
		contentType = c.Config.ContentType
	}
	body := f.encode(make([]byte, 0, encodedSize(c)), c.Runs)
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_ = a.writeBody(w, body) // a client that has gone needs no answer
	return nil
}

// encodedSize guesses the length of a chunk in any format, so that encoding it
// seldom grows its buffer.
func encodedSize(c *stream.Chunk) int {
	const perRecord = 64 // of {"seq":…,"timestamp":…,"body":""}, with some escapes
	size := perRecord
	for i := range c.Runs {
		size += len(c.Runs[i].Bodies) + perRecord*c.Runs[i].Len()
	}
	return size
}
