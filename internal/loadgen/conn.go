package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"
)

// exchangeTimeout bounds one request and its answer, and the time until a live
// reader's answer begins.
const exchangeTimeout = 30 * time.Second

// maxHeaderLine bounds one line of a response's header, in bytes.
const maxHeaderLine = 16 << 10

// conn is one HTTP/1.1 connection. It belongs to one goroutine.
type conn struct {
	net.Conn
	in *bufio.Reader
}

// dial opens a connection that breaks when ctx ends. The caller calls release,
// which closes it.
func dial(ctx context.Context, u *url.URL) (c *conn, release func(), err error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	address := net.JoinHostPort(u.Hostname(), port)
	dialer := &net.Dialer{Timeout: exchangeTimeout}
	var raw net.Conn
	if u.Scheme == "https" {
		raw, err = (&tls.Dialer{NetDialer: dialer}).DialContext(ctx, "tcp", address)
	} else {
		raw, err = dialer.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	release = func() {
		stop()
		_ = raw.Close() // it may be closed already
	}
	return &conn{Conn: raw, in: bufio.NewReaderSize(raw, maxHeaderLine)}, release, nil
}

// methodHead begins requests whose answers have no body, whatever they say.
var methodHead = []byte("HEAD ")

// exchange sends a request and reads its answer to the end. After an error, or
// when reusable is false, the connection is of no more use.
func (c *conn) exchange(request []byte) (status int, reusable bool, err error) {
	if err := c.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return 0, false, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, false, err
	}
	h, err := c.readHeader()
	if err != nil {
		return 0, false, err
	}
	if bytes.HasPrefix(request, methodHead) {
		return h.status, !h.close, nil
	}
	body := c.body(h)
	_, err = io.Copy(io.Discard, body)
	return h.status, err == nil && !h.close && !body.untilClose(), err
}

// redialed is a connection to a target that is opened when it is needed, and
// again after it broke. It belongs to one goroutine.
type redialed struct {
	target  *target
	conn    *conn // nil: it is not open
	release func()
}

// dial opens the connection unless it is open.
func (r *redialed) dial(ctx context.Context) (err error) {
	if r.conn == nil {
		r.conn, r.release, err = dial(ctx, r.target.url)
	}
	return err
}

func (r *redialed) exchange(ctx context.Context, request []byte) (status int, err error) {
	if err := r.dial(ctx); err != nil {
		return 0, err
	}
	status, reusable, err := r.conn.exchange(request)
	if !reusable {
		r.close()
	}
	return status, err
}

func (r *redialed) close() {
	if r.conn != nil {
		r.release()
		r.conn = nil
	}
}

// header is what matters of a response's header.
type header struct {
	status  int
	length  int64 // of the body; -1: until the connection closes
	chunked bool
	close   bool // after this response
}

var (
	fieldLength   = []byte("content-length")
	fieldEncoding = []byte("transfer-encoding")
	fieldClose    = []byte("connection")
)

// readHeader reads the header of the next response that is not informational.
func (c *conn) readHeader() (header, error) {
	for {
		h, err := c.readOneHeader()
		if err != nil || h.status >= 200 {
			return h, err
		}
	}
}

func (c *conn) readOneHeader() (header, error) {
	h := header{length: -1}
	line, err := c.line()
	if err != nil {
		return h, err
	}
	if len(line) < 12 || string(line[:7]) != "HTTP/1." {
		return h, fmt.Errorf("the answer begins with %.40q, which is not HTTP/1", line)
	}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return h, fmt.Errorf("the answer's status is %q", line[9:12])
	}
	for {
		if line, err = c.line(); err != nil {
			return h, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, fieldLength):
			if h.length, err = strconv.ParseInt(string(value), 10, 64); err != nil || h.length < 0 {
				return h, fmt.Errorf("the answer's Content-Length is %q", value)
			}
		case bytes.EqualFold(name, fieldEncoding):
			h.chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, fieldClose):
			h.close = bytes.EqualFold(value, []byte("close"))
		}
	}
	if h.status == 204 || h.status == 304 || h.status < 200 {
		h.length, h.chunked = 0, false
	}
	return h, nil
}

// line is the next line without its end, valid until the next read.
func (c *conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// body reads the body behind a header.
func (c *conn) body(h header) *body {
	if h.chunked {
		return &body{conn: c, chunked: true}
	}
	return &body{conn: c, left: h.length}
}

// body is the bytes of one response.
type body struct {
	conn    *conn
	chunked bool
	left    int64 // of the chunk, or of the body; -1: until the connection closes
	inside  bool  // chunked, and behind the first chunk's size
	ended   bool
}

func (b *body) untilClose() bool { return !b.chunked && b.left < 0 }

// Read implements io.Reader. It returns as soon as something is there.
func (b *body) Read(p []byte) (int, error) {
	if b.chunked && b.left == 0 && !b.ended {
		if err := b.nextChunk(); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
	if b.left == 0 || b.ended {
		return 0, io.EOF
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.conn.in.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// nextChunk reads up to the next chunk's bytes, or the end of the body.
func (b *body) nextChunk() error {
	if b.inside {
		if _, err := b.conn.line(); err != nil { // the end of the last chunk
			return err
		}
	}
	b.inside = true
	line, err := b.conn.line()
	if err != nil {
		return err
	}
	size, _, _ := bytes.Cut(line, []byte{';'})
	if b.left, err = strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 64); err != nil || b.left < 0 {
		return fmt.Errorf("a chunk's size is %.40q", size)
	}
	for b.left == 0 { // the trailer, up to its empty line
		line, err := b.conn.line()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			b.ended = true
			return nil
		}
	}
	return nil
}
