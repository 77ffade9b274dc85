package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"github.com/picomq/picomq/httpapi/wire"
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
// Time and memory are linear in the body. Messages are counted, and reserve is
// asked, before memory is taken for them. The errors are *[stream.Error] of code
// [stream.CodeBadRequest], or [stream.CodeTooLarge] above [stream.MaxRecords], or
// reserve's.
func splitJSON(body []byte, reserve wire.Reserve) ([]stream.Record, error) {
	if !utf8.Valid(body) {
		return nil, stream.Errorf(stream.CodeBadRequest, "the body is not valid UTF-8, as JSON must be")
	}
	value := bytes.Trim(body, jsonSpace)
	if !json.Valid(value) {
		return nil, invalidJSON(body)
	}
	cut := jsonCutter{text: value}
	count := 0
	cut.messages(func([]byte) bool {
		count++
		return count <= stream.MaxRecords
	})
	switch {
	case cut.tooDeep:
		return nil, stream.Errorf(stream.CodeBadRequest, "the JSON body nests deeper than %d levels", maxJSONDepth)
	case count > stream.MaxRecords:
		return nil, stream.Errorf(stream.CodeTooLarge,
			"the JSON array has more than %d elements; send them in several requests", stream.MaxRecords)
	case count == 0:
		return nil, nil
	}
	if err := reserve.Records(count); err != nil {
		return nil, err
	}
	records := make([]stream.Record, 0, count)
	cut.messages(func(message []byte) bool {
		records = append(records, stream.Record{Body: message})
		return true
	})
	return records, nil
}

// jsonSpace is what JSON calls insignificant white space.
const jsonSpace = " \t\r\n"

// invalidJSON says where a body stops being JSON.
func invalidJSON(body []byte) error {
	var ignored json.RawMessage
	err := json.Unmarshal(body, &ignored)
	return stream.Errorf(stream.CodeBadRequest, "the body is not valid JSON: %w", err)
}

// jsonCutter finds values in text that is known to be valid JSON, so it need
// look at strings and brackets only.
type jsonCutter struct {
	text    []byte
	tooDeep bool
}

// messages calls each with the text of one message after the other, until it
// returns false.
func (c *jsonCutter) messages(each func(text []byte) bool) {
	if c.text[0] != '[' {
		c.skipValue(0)
		each(c.text)
		return
	}
	at := c.skipSpace(1)
	if c.text[at] == ']' {
		return // an empty array: there are no trailing commas
	}
	for {
		end := c.skipValue(at)
		if !each(bytes.TrimRight(c.text[at:end:end], jsonSpace)) || c.text[end] == ']' {
			return
		}
		at = c.skipSpace(end + 1) // past the comma
	}
}

func (c *jsonCutter) skipSpace(at int) int {
	for bytes.IndexByte([]byte(jsonSpace), c.text[at]) >= 0 {
		at++
	}
	return at
}

// skipValue is where the value at a position ends: at the comma or bracket
// that follows it, space before that included, or at the end of the text.
func (c *jsonCutter) skipValue(at int) int {
	depth := 0
	for ; at < len(c.text); at++ {
		switch c.text[at] {
		case '"':
			at = c.skipString(at)
		case '[', '{':
			depth++
			if depth > maxJSONDepth {
				c.tooDeep = true
			}
		case ']', '}':
			if depth == 0 {
				return at
			}
			depth--
		case ',':
			if depth == 0 {
				return at
			}
		}
	}
	return at
}

// skipString is where the string that begins at a position has its last quote.
func (c *jsonCutter) skipString(at int) int {
	for at++; c.text[at] != '"'; at++ {
		if c.text[at] == '\\' {
			at++
		}
	}
	return at
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
