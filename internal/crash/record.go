package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/picomq/picomq/stream"
)

// recordID says where a record comes from. No two records share one.
type recordID struct {
	Writer  int `json:"writer"`
	Request int `json:"request"` // of the writer, from 0
	Index   int `json:"index"`   // within the request, from 0
}

// body is a record as it is sent: one JSON value, so that bodies can be told
// apart when they lie end to end, and long enough to find damage in.
type body struct {
	recordID
	Of  int    `json:"of"` // records in the request
	Pad string `json:"pad"`
}

// encodeBody is the body of a record. It follows from the arguments alone.
func encodeBody(id recordID, of int) []byte {
	text, err := json.Marshal(body{recordID: id, Of: of, Pad: pad(id, of)})
	if err != nil {
		panic(err) // strings and integers always encode
	}
	return text
}

// decodeBody reads a body back and checks every byte of it.
func decodeBody(text []byte) (recordID, error) {
	var b body
	if err := json.Unmarshal(text, &b); err != nil {
		return recordID{}, fmt.Errorf("a body that no writer sent: %.80q: %w", text, err)
	}
	if !bytes.Equal(text, encodeBody(b.recordID, b.Of)) {
		return recordID{}, fmt.Errorf("the body of %v is damaged: %.80q", b.recordID, text)
	}
	return b.recordID, nil
}

// pad varies the sizes: most records are small, some fill a page, and one in a
// few hundred is larger than a block of a segment. It vouches for the numbers
// before it.
func pad(id recordID, of int) string {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%d/%d/%d/%d", id.Writer, id.Request, id.Index, of) // a hash takes everything
	n := int(h.Sum32())
	size := n % 64
	switch {
	case n%331 == 0:
		size = 90_000
	case n%17 == 0:
		size = 4096
	}
	return strings.Repeat(string(rune('a'+n%26)), size)
}

// records are the records of a request.
func records(writer, request, count int) []stream.Record {
	out := make([]stream.Record, count)
	for i := range out {
		out[i].Body = encodeBody(recordID{Writer: writer, Request: request, Index: i}, count)
	}
	return out
}
