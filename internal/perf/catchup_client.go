package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/picomq/picomq/httpapi/wire"
)

// readBuffer is how much a raw reader takes from its socket at a time.
const readBuffer = 512 << 10

// reader is one connection that reads streams from the start and looks at
// nothing but headers.
type reader struct {
	conn net.Conn
	in   *bufio.Reader
	host string
	stop func() bool
}

// dialReader opens a connection that breaks when ctx ends.
func dialReader(ctx context.Context, endpoint string) (*reader, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &reader{conn: conn, in: bufio.NewReaderSize(conn, readBuffer), host: u.Host, stop: stop}, nil
}

func (r *reader) close() {
	r.stop()
	_ = r.conn.Close() // it may be closed already
}

// readAll reads a stream up to its tail, and returns the bytes of the bodies.
func (r *reader) readAll(name, more string) (bytes int64, err error) {
	for offset, upToDate := "-1", false; !upToDate; {
		if _, err := fmt.Fprintf(r.conn, "GET /v1/stream/%s?offset=%s%s HTTP/1.1\r\nHost: %s\r\n\r\n", name, offset, more, r.host); err != nil {
			return bytes, err
		}
		answer, err := http.ReadResponse(r.in, nil) //nolint:bodyclose // its body is discarded below, where it lies
		if err != nil {
			return bytes, err
		}
		if answer.StatusCode != http.StatusOK || answer.ContentLength < 0 {
			return bytes, fmt.Errorf("%s was answered with %s and %d bytes", name, answer.Status, answer.ContentLength)
		}
		if _, err := r.in.Discard(int(answer.ContentLength)); err != nil {
			return bytes, err
		}
		bytes += answer.ContentLength
		offset = answer.Header.Get(wire.StreamNextOffset)
		upToDate = strings.EqualFold(answer.Header.Get(wire.StreamUpToDate), "true")
	}
	return bytes, nil
}

// sendFromMemory answers reads as long as the server's with bytes that it has:
// of a stream of so many bytes as the query says, the next 4 MiB.
func sendFromMemory(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	total, _ := strconv.Atoi(query.Get("bytes"))
	offset, _ := strconv.Atoi(query.Get("offset"))
	offset = max(offset, 0)
	n := min(len(inMemory), total-offset)
	h := w.Header()
	h.Set("Content-Length", strconv.Itoa(n))
	h.Set(wire.StreamNextOffset, strconv.Itoa(offset+n))
	h.Set(wire.StreamUpToDate, strconv.FormatBool(offset+n == total))
	_, _ = w.Write(inMemory[:n])
}

var inMemory = make([]byte, 4<<20)
