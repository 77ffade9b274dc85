package httpapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

func TestBodiesAreBounded(t *testing.T) {
	s := newService(t, func(c *Config) { c.MaxBody = 1000 })
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	for _, row := range []struct {
		name   string
		bytes  int
		length int64 // that is declared; -1 for chunked
		status int
	}{
		{"the largest", 1000, 1000, 204},
		{"the largest, chunked", 1000, -1, 204},
		{"larger", 1001, 1001, 413},
		{"larger, chunked", 1001, -1, 413},
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut} {
			t.Run(row.name+" "+method, func(t *testing.T) {
				request, err := http.NewRequestWithContext(context.Background(), method, s.server.URL+"/v1/stream/a",
					strings.NewReader(strings.Repeat("x", row.bytes)))
				require.NoError(t, err)
				request.ContentLength = row.length
				request.Header.Set("Content-Type", typeText)
				response, err := s.client.Do(request)
				require.NoError(t, err)
				defer response.Body.Close()
				if method == http.MethodPut && row.status == 204 {
					row.status = 200
				}
				assert.Equal(t, row.status, response.StatusCode)
			})
		}
	}
}

func TestALargeBodyIsRefusedBeforeItIsSent(t *testing.T) {
	s := newService(t)
	got := exchangeRaw(t, s, "POST /v1/stream/a HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n")
	assert.Equal(t, 413, got.status)
	assertDurableError(t, got)
}

// exchangeRaw sends the text of a request on a connection of its own, ends the
// sending side, and reads one answer.
func exchangeRaw(t *testing.T, s *service, text string) answer {
	t.Helper()
	conn := dial(t, s)
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return answer{response.StatusCode, response.Header, string(body)}
}

func dial(t *testing.T, s *service) *net.TCPConn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(context.Background(), "tcp", s.server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

func TestBodiesThatEndEarlyWriteNothing(t *testing.T) {
	for _, row := range []struct{ name, text string }{
		{"short of its length", "Content-Length: 10\r\n\r\nabc"},
		{"chunk cut off", "Transfer-Encoding: chunked\r\n\r\n5\r\nabc"},
		{"no last chunk", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"},
		{"no chunk at all", "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"},
	} {
		for _, method := range []string{"POST", "PUT"} {
			t.Run(row.name+" "+method, func(t *testing.T) {
				s := newService(t)
				if method == "POST" {
					s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
				}
				got := exchangeRaw(t, s, method+" /v1/stream/a HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"+row.text)
				assert.Equal(t, 400, got.status)
				assertDurableError(t, got)
				info, err := s.streams.Head(context.Background(), "a")
				if method == "PUT" {
					assert.Equal(t, stream.CodeNotFound, stream.CodeOf(err))
				}
				assert.Zero(t, info.Tail)
			})
		}
	}
}

func TestABodyThatTakesTooLongIsRefused(t *testing.T) {
	s := newService(t, func(c *Config) { c.BodyTimeout = 10 * time.Millisecond })
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	conn := dial(t, s)
	_, err := io.WriteString(conn, "POST /v1/stream/a HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nabc")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, 400, response.StatusCode)
	info, err := s.streams.Head(context.Background(), "a")
	require.NoError(t, err)
	assert.Zero(t, info.Tail)
}

func TestAllBodiesTogetherAreBounded(t *testing.T) {
	s := newService(t, func(c *Config) { c.MaxBody, c.BodyBudget = 100, 100 })
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	// A request under way has announced 60 bytes of the 100.
	conn := dial(t, s)
	_, err := io.WriteString(conn, "POST /v1/stream/a HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 60\r\n\r\n"+strings.Repeat("x", 59))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.api.bodies.Load() == 60 }, readyTimeout, readyTick)
	got := s.do(http.MethodPost, "/v1/stream/a", strings.Repeat("y", 41), "Content-Type", typeText)
	assert.Equal(t, 503, got.status)
	assert.Equal(t, "1", got.header.Get("Retry-After"))
	assert.Equal(t, 204, s.do(http.MethodPost, "/v1/stream/a", strings.Repeat("z", 40), "Content-Type", typeText).status)
	_, err = io.WriteString(conn, "x")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.api.bodies.Load() == 0 }, readyTimeout, readyTick)
}

func TestABodyTakesTheMemoryThatWasReserved(t *testing.T) {
	for _, size := range []int64{1, bodyReserve, bodyReserve + 1, 2*bodyReserve + 1, 3_000_000} {
		text := strings.Repeat("x", int(size))
		for _, most := range []int64{size, size + 1, 8 << 20} {
			reserved := int64(0)
			// Bytes arrive in pieces, and the end alone.
			got, err := collect(iotest.HalfReader(strings.NewReader(text)), most, func(n int64) error {
				reserved += n
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, text, string(got.bytes))
			assert.LessOrEqual(t, reserved, bufferSize(min(most, max(bodyReserve, bodyGrowth*size))))
			assert.LessOrEqual(t, int64(len(got.whole)), reserved+1)
		}
		_, err := collect(strings.NewReader(text+"x"), size, func(int64) error { return nil })
		assert.Equal(t, stream.CodeTooLarge, stream.CodeOf(err))
	}
	_, err := collect(strings.NewReader("x"), 1<<40, func(n int64) error {
		assert.EqualValues(t, bodyReserve, n, "no more on the word of a client")
		return io.ErrShortBuffer
	})
	assert.ErrorIs(t, err, io.ErrShortBuffer)
}

func TestBuffersAreUsedAgain(t *testing.T) {
	for size, memory := range map[int64]int64{
		0: 0, leastBuffer - 1: leastBuffer - 1, leastBuffer: leastBuffer, leastBuffer + 1: 2 * leastBuffer,
		mostBuffer: mostBuffer, mostBuffer + 1: mostBuffer + 1,
	} {
		assert.Equal(t, memory, bufferSize(size))
		b := takeBuffer(memory)
		assert.Len(t, b.bytes, int(memory)+1)
		assert.Equal(t, leastBuffer <= memory && memory <= mostBuffer, b.whole != nil)
		b.bytes = b.bytes[:0]
		b.release()
		assert.Len(t, takeBuffer(memory).bytes, int(memory)+1, "the one that went back, if the pool has kept it")
	}
}

// TestRecordsKeepTheirBytes, although the memory of their bodies is used again.
func TestRecordsKeepTheirBytes(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeJSON)
	var all []string
	for i := range 4 {
		one := `"` + strings.Repeat(string(rune('a'+i)), bodyReserve) + `"`
		s.must(http.MethodPost, "/v1/stream/a", "["+one+","+one+"]", "Content-Type", typeJSON)
		all = append(all, one, one)
	}
	assert.Equal(t, "["+strings.Join(all, ",")+"]", s.must(http.MethodGet, "/v1/stream/a?offset=-1", "").body)
}

func TestRecordsCountAgainstTheBudgetOfBodies(t *testing.T) {
	const count = 1000
	for _, row := range []struct{ name, path, contentType, body string }{
		{"JSON messages", "/v1/stream/a", typeJSON, "[" + strings.Repeat("0,", count-1) + "0]"},
		{"a JSON batch", "/a", wire.TypeBatchJSON, string(wire.EncodeJSONAppend(nil, make([]stream.Record, count)))},
		{"a binary batch", "/a", wire.TypeBatch, string(wire.EncodeBinaryAppend(nil, make([]stream.Record, count)))},
	} {
		t.Run(row.name, func(t *testing.T) {
			limit := int64(len(row.body))
			s := newService(t, func(c *Config) { c.MaxBody, c.BodyBudget = limit, limit+count*stream.RecordMemory })
			s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeJSON)
			// Another request holds two bytes.
			conn := dial(t, s)
			_, err := io.WriteString(conn, "POST /v1/stream/a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n1")
			require.NoError(t, err)
			require.Eventually(t, func() bool { return s.api.bodies.Load() == 2 }, readyTimeout, readyTick)
			assert.Equal(t, 503, s.do(http.MethodPost, row.path, row.body, "Content-Type", row.contentType).status)
			_, err = io.WriteString(conn, "1")
			require.NoError(t, err)
			require.Eventually(t, func() bool { return s.api.bodies.Load() == 0 }, readyTimeout, readyTick)
			got := s.do(http.MethodPost, row.path, row.body, "Content-Type", row.contentType)
			assert.NotEqual(t, 503, got.status, "alone it fits")
		})
	}
}

func TestRecordsOfOneRequestAreBounded(t *testing.T) {
	const many = stream.MaxRecords + 1
	for _, row := range []struct{ name, path, contentType, body string }{
		{"JSON messages", "/v1/stream/a", typeJSON, "[" + strings.Repeat("0,", many-1) + "0]"},
		{"a JSON batch", "/a", wire.TypeBatchJSON, string(wire.EncodeJSONAppend(nil, make([]stream.Record, many)))},
		{"a binary batch", "/a", wire.TypeBatch, string(wire.EncodeBinaryAppend(nil, make([]stream.Record, many)))},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t)
			assert.Equal(t, 413, s.do(http.MethodPut, row.path, row.body, "Content-Type", row.contentType).status)
			s.must(http.MethodPut, row.path, "", "Content-Type", typeJSON)
			assert.Equal(t, 413, s.do(http.MethodPost, row.path, row.body, "Content-Type", row.contentType).status)
		})
	}
}

func TestOversizeHeadersAreRefused(t *testing.T) {
	s := newService(t)
	got := s.do(http.MethodGet, "/v1/stream/a", "", "X-Large", strings.Repeat("x", 2<<20))
	assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, got.status)
}

func TestMalformedTargetsAreRefused(t *testing.T) {
	s := newService(t)
	for _, target := range []string{"/v1/stream/a%zz", "/v1/stream/a%", "/v1/stream/a b"} {
		got := exchangeRaw(t, s, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		assert.Equal(t, 400, got.status, target)
	}
}

func TestATrimTakesNoBody(t *testing.T) {
	for _, row := range []struct {
		name, text string
		status     int
	}{
		{"none", "Content-Length: 0\r\n\r\n", 200},
		{"no chunk", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200},
		{"bytes", "Content-Length: 1\r\n\r\nx", 400},
		{"announced", "Content-Length: 1\r\n\r\n", 400},
		{"a chunk", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 400},
		{"chunks that end early", "Transfer-Encoding: chunked\r\n\r\n", 400},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t)
			s.must(http.MethodPut, "/a", "x")
			got := exchangeRaw(t, s, "POST /a HTTP/1.1\r\nHost: x\r\nPico-Trim-Seq: 1\r\n"+row.text)
			assert.Equal(t, row.status, got.status, got.body)
		})
	}
}
