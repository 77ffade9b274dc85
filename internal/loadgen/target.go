package loadgen

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// target is what requests are made of.
type target struct {
	url         *url.URL
	root        string // escaped path of the streams, up to their numbers
	prefix      string // of the names
	contentType string // of the streams
	bodyType    string // of an append
	body        []byte // of an append, its marks not yet stamped
	liveQuery   string // from the tail on, as events
}

// newTarget lays out the appends. Where several records go together, Pico takes
// a binary batch; Durable Streams takes that only as JSON.
func newTarget(c *Config, u *url.URL) *target {
	t := &target{url: u, prefix: c.Prefix + "/", contentType: "text/plain"}
	record := newRecord(c.Size)
	switch {
	case c.Protocol == client.DurableStreams && c.Batch > 1:
		t.contentType = wire.TypeJSON
		t.bodyType = t.contentType
		message := string(newMessage(c.Size))
		t.body = []byte("[" + strings.Repeat(message+",", c.Batch-1) + message + "]")
	case c.Batch > 1:
		t.bodyType = wire.TypeBatch
		records := make([]stream.Record, c.Batch)
		for i := range records {
			records[i].Body = record
		}
		t.body = wire.EncodeBinaryAppend(nil, records)
	default:
		t.bodyType = t.contentType
		t.body = record
	}
	path, query := "/", "?seq=now&live=sse"
	if c.Protocol == client.DurableStreams {
		path, query = "/v1/stream/", "?offset=now&live=sse"
	}
	t.liveQuery = query
	escaped := (&url.URL{Path: path + t.prefix}).EscapedPath()
	t.root = strings.TrimRight(u.EscapedPath(), "/") + escaped
	return t
}

// name is the i-th stream's.
func (t *target) name(i int) stream.Name { return stream.Name(t.prefix + strconv.Itoa(i)) }

// appendRequest is the request head for stream i and the body, written over
// dst; marks are where the digits of its marks stand.
type appendRequest struct {
	dst   []byte
	head  int    // bytes of dst before the body
	rest  string // of the head, behind the path
	marks []int  // in the body
}

func (t *target) newAppendRequest() *appendRequest {
	return &appendRequest{
		rest: " HTTP/1.1\r\nHost: " + t.url.Host + "\r\nContent-Type: " + t.bodyType +
			"\r\nContent-Length: " + strconv.Itoa(len(t.body)) + "\r\n\r\n",
		marks: markOffsets(t.body),
	}
}

// make builds the request for stream i; stamp its marks next.
func (r *appendRequest) make(t *target, i int) {
	last := r.head
	head := append(r.dst[:0], "POST "...)
	head = append(head, t.root...)
	head = strconv.AppendInt(head, int64(i), 10)
	head = append(head, r.rest...)
	r.head = len(head)
	if r.head == last { // the body lies where it did
		r.dst = head[:last+len(t.body)]
		return
	}
	r.dst = append(head, t.body...)
}

// digits is where mark m of the request has its time.
func (r *appendRequest) digits(m int) []byte {
	at := r.head + r.marks[m]
	return r.dst[at : at+markDigits]
}

// bareRequest is a request about stream i without a body, behind dst. A PUT
// names the type of the stream.
func (t *target) bareRequest(dst []byte, method string, i int) []byte {
	dst = append(append(dst, method...), ' ')
	dst = append(dst, t.root...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	dst = append(append(dst, " HTTP/1.1\r\nHost: "...), t.url.Host...)
	if method == http.MethodPut {
		dst = append(append(dst, "\r\nContent-Length: 0\r\nContent-Type: "...), t.contentType...)
	}
	return append(dst, "\r\n\r\n"...)
}

// liveRequest follows stream i from its tail on.
func (t *target) liveRequest(i int) []byte {
	return []byte("GET " + t.root + strconv.Itoa(i) + t.liveQuery + " HTTP/1.1\r\nHost: " + t.url.Host +
		"\r\nAccept: text/event-stream\r\n\r\n")
}

func randomPrefix() string {
	var name [6]byte
	_, _ = rand.Read(name[:]) // never fails
	return "bench/" + hex.EncodeToString(name[:])
}
