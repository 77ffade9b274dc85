package httpapi

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/internal/jsontext"
	"github.com/picomq/picomq/stream"
)

// maxJSONDepth is the deepest nesting of arrays and objects in a body. It is
// far below what makes common parsers give up, so that whatever is stored can
// be read back.
const maxJSONDepth = 512

// splitJSON checks that a body is one JSON value in UTF-8 and cuts it into the
// messages of a JSON stream: the elements of a top-level array (one level only),
// or the value itself. An empty array has none; whether that is allowed depends
// on the request. Message text is kept as it was sent, less the white space
// around it: nothing is parsed and printed again, which would lose big integers,
// trailing zeros, repeated keys and their order. The records' bodies are parts of
// body.
//
// Time is linear in the body, and memory in the number of messages.
// Before it is taken for more of them, reserve is asked. The errors are
// *[stream.Error] of code [stream.CodeBadRequest], or [stream.CodeTooLarge] above
// [stream.MaxRecords], or reserve's.
func splitJSON(body []byte, reserve wire.Reserve) ([]stream.Record, error) {
	cut := jsonCutter{body: body, text: jsontext.New(body, maxJSONDepth), reserve: reserve}
	if !cut.messages() && cut.err == nil {
		cut.err = invalidJSON(body, cut.text.TooDeep())
	}
	if cut.err != nil {
		return nil, cut.err
	}
	return cut.records, nil
}

// invalidJSON says where a body stops being JSON.
func invalidJSON(body []byte, tooDeep bool) error {
	if tooDeep {
		return stream.Errorf(stream.CodeBadRequest, "the JSON body nests deeper than %d levels", maxJSONDepth)
	}
	if !utf8.Valid(body) {
		return stream.Errorf(stream.CodeBadRequest, "the body is not valid UTF-8, as JSON must be")
	}
	var ignored json.RawMessage
	err := json.Unmarshal(body, &ignored)
	return stream.Errorf(stream.CodeBadRequest, "the body is not valid JSON: %w", err)
}

// jsonCutter collects the messages of a body while it is checked.
type jsonCutter struct {
	body    []byte
	text    *jsontext.Scanner
	reserve wire.Reserve
	records []stream.Record
	err     error // other than that it is not JSON
}

// messages takes all of them, and tells whether the body is JSON and err is nil.
func (c *jsonCutter) messages() bool {
	c.text.Space()
	if !c.text.Take('[') {
		return c.grow(1) && c.message() && c.text.End()
	}
	c.text.Space()
	if c.text.Take(']') {
		return c.text.End()
	}
	for c.message() {
		c.text.Space()
		if !c.text.Take(',') {
			return c.text.Take(']') && c.text.End()
		}
		c.text.Space()
	}
	return false
}

func (c *jsonCutter) message() bool {
	start := c.text.Pos()
	if !c.text.Value() {
		return false
	}
	if len(c.records) == cap(c.records) && !c.grow(max(manyMessages, messageGrowth*len(c.records))) {
		return false
	}
	end := c.text.Pos()
	c.records = append(c.records, stream.Record{Body: c.body[start:end:end]})
	return true
}

// The room for messages of an array begins with manyMessages and grows by a factor.
const (
	manyMessages  = 32
	messageGrowth = 4
)

// grow makes room for so many messages, or fails. What it leaves behind counts as
// memory, too, until the request is over.
func (c *jsonCutter) grow(room int) bool {
	if len(c.records) == stream.MaxRecords {
		c.err = stream.Errorf(stream.CodeTooLarge,
			"the JSON array has more than %d elements; send them in several requests", stream.MaxRecords)
		return false
	}
	room = min(room, stream.MaxRecords)
	if c.err = c.reserve.Records(room); c.err != nil {
		return false
	}
	c.records = append(make([]stream.Record, 0, room), c.records...)
	return true
}

// writeJSONBody answers with a value of ours as JSON.
func writeJSONBody(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil { // values of ours always marshal
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone needs no answer
}
