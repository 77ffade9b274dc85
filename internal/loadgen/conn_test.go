package loadgen

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// connTo is a connection whose peer has sent text and then ended.
func connTo(text string, wrap func(io.Reader) io.Reader) *conn {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = io.WriteString(theirs, text)
		_ = theirs.Close()
	}()
	return &conn{Conn: ours, in: bufio.NewReaderSize(wrap(ours), maxHeaderLine)}
}

// TestResponses reads what servers may answer, whole and byte by byte.
func TestResponses(t *testing.T) {
	for _, c := range []struct {
		what, response string
		header         header
		body           string
	}{
		{"a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", header{status: 200, length: 5}, "hello"},
		{"names in any case, space around values", "HTTP/1.1 200 OK\r\ncontent-LENGTH:5  \r\nX: y\r\n\r\nhello", header{status: 200, length: 5}, "hello"},
		{"no reason", "HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n", header{status: 503}, ""},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", header{status: 204}, ""},
		{"not modified with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", header{status: 304}, ""},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;ext=1\r\n!\r\n0\r\nTrailer: x\r\n\r\n", header{status: 200, length: -1, chunked: true}, "hello!"},
		{"a chunk size in hexadecimal", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", header{status: 200, length: -1, chunked: true}, "0123456789"},
		{"until the end", "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nhello", header{status: 200, length: -1, close: true}, "hello"},
		{"information first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", header{status: 200, length: 1}, "x"},
	} {
		t.Run(c.what, func(t *testing.T) {
			for _, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
				conn := connTo(c.response, wrap)
				h, err := conn.readHeader()
				require.NoError(t, err)
				require.Equal(t, c.header, h)
				got, err := io.ReadAll(conn.body(h))
				require.NoError(t, err)
				require.Equal(t, c.body, string(got))
				require.NoError(t, conn.Close())
			}
		})
	}
}

func TestBrokenResponses(t *testing.T) {
	for what, response := range map[string]string{
		"nothing":                     "",
		"not HTTP":                    "SSH-2.0-OpenSSH_9.2\r\n",
		"a status that is no number":  "HTTP/1.1 abc OK\r\n\r\n",
		"a header that ends early":    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
		"a length that is no number":  "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
		"a length that is negative":   "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
		"a body that ends early":      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
		"a chunk that ends early":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhell",
		"chunks without the last":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"a chunk size that is none":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nhello\r\n",
		"a line longer than we allow": "HTTP/1.1 200 " + string(make([]byte, maxHeaderLine)),
	} {
		t.Run(what, func(t *testing.T) {
			conn := connTo(response, func(r io.Reader) io.Reader { return r })
			h, err := conn.readHeader()
			if err == nil {
				_, err = io.ReadAll(conn.body(h))
			}
			require.Error(t, err)
			require.NoError(t, conn.Close())
		})
	}
}

// TestMessagesAreJSON of the size that was asked for, with one mark each.
func TestMessagesAreJSON(t *testing.T) {
	for _, size := range []int{MinSize, 37, 38, 39, 100, 1024, 100_000} {
		message := newMessage(size)
		assert.True(t, json.Valid(message), "%s", message)
		assert.Len(t, markOffsets(message), 1)
		if message[0] == '{' {
			assert.Len(t, message, size)
		} else {
			assert.Len(t, message, size+2)
		}
	}
}

// TestScannerFindsEveryMark, however the bytes are cut into pieces.
func TestScannerFindsEveryMark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		var want []time.Duration
		for range rapid.IntRange(0, 6).Draw(t, "records") {
			record := newRecord(rapid.IntRange(MinSize, 40).Draw(t, "size"))
			sent := time.Duration(rapid.Int64Range(0, 9_999_999_999_999_999).Draw(t, "sent"))
			stamp(record[len(markStart):], sent)
			want = append(want, sent)
			all = append(all, record...)
			all = append(all, rapid.SampledFrom([]string{"", "\n\ndata:", `","`, "@", "@@"}).Draw(t, "between")...)
		}
		var got []time.Duration
		var scanner markScanner
		for len(all) > 0 {
			n := rapid.IntRange(1, len(all)).Draw(t, "piece")
			scanner.scan(all[:n], func(sent time.Duration) { got = append(got, sent) })
			all = all[n:]
		}
		require.Equal(t, want, got)
	})
}
