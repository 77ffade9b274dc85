package httpapi

import (
	"net/http"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// picoFormat is a way to write the records of a read.
type picoFormat struct {
	name        string                                     // of the parameter format
	contentType string                                     // empty: the stream's own
	encode      func(dst []byte, runs []stream.Run) []byte // nil: bodies as they are
}

var (
	formatJSON   = picoFormat{name: "json", contentType: wire.TypeJSON, encode: wire.EncodeJSONRead}
	formatBinary = picoFormat{name: "binary", contentType: wire.TypeBatch, encode: wire.EncodeBinaryRead}
	formatRaw    = picoFormat{name: "raw"}
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
	w.Header().Set("Content-Type", contentType)
	return a.writeWhole(w, f.parts(c))
}

// parts are the pieces that make a chunk's body.
func (f picoFormat) parts(c *stream.Chunk) [][]byte {
	if f.encode != nil {
		return [][]byte{f.encode(make([]byte, 0, encodedSize(c)), c.Runs)}
	}
	parts := make([][]byte, 0, len(c.Runs))
	for r := range c.Runs {
		run := &c.Runs[r]
		if !run.JSON {
			parts = append(parts, run.Bodies)
			continue
		}
		for i := range run.Len() {
			parts = append(parts, run.Body(i)) // without the commas between
		}
	}
	return parts
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
