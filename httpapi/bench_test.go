package httpapi

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/internal/memstreams"
	"github.com/picomq/picomq/stream"
)

// What the protocol costs for each request, without a network and with streams
// that cost next to nothing.

// canned answers everything at once and keeps nothing.
type canned struct {
	Streams
	chunk *stream.Chunk
}

func (c canned) Append(context.Context, stream.Name, *stream.AppendRequest) (stream.Appended, error) {
	return stream.Appended{Next: 8}, nil
}

func (c canned) Read(context.Context, stream.Name, stream.ReadRequest) (*stream.Chunk, error) {
	return c.chunk, nil
}

func benchmarkAPI(b *testing.B, size int) *API {
	b.Helper()
	run := stream.Run{Bodies: make([]byte, size), Ends: []uint32{uint32(size)}}
	chunk := &stream.Chunk{Next: 1, Runs: []stream.Run{run}, UpToDate: true}
	chunk.Config.ContentType, chunk.Tail = typeText, 1
	api, err := New(Config{Streams: canned{memstreams.New(), chunk}})
	if err != nil {
		b.Fatal(err)
	}
	return api
}

func BenchmarkDurableAppend(b *testing.B) {
	api, body := benchmarkAPI(b, 0), strings.Repeat("x", 200)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/stream/a", strings.NewReader(body))
		r.Header.Set("Content-Type", typeText)
		api.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
}

// BenchmarkBatch is an append of 100 records of 1 KiB.
func BenchmarkBatch(b *testing.B) {
	const records, size = 100, 1 << 10
	batch := make([]stream.Record, records)
	for i := range batch {
		batch[i].Body = bytes.Repeat([]byte{'x'}, size)
	}
	message := `{"text":"` + strings.Repeat("x", size-11) + `"}`
	for _, row := range []struct{ name, path, contentType, body string }{
		{"binary", "/a", wire.TypeBatch, string(wire.EncodeBinaryAppend(nil, batch))},
		{"JSON batch", "/a", wire.TypeBatchJSON, string(wire.EncodeJSONAppend(nil, batch))},
		{"JSON array", "/v1/stream/a", typeJSON, "[" + strings.Repeat(message+",", records-1) + message + "]"},
	} {
		b.Run(row.name, func(b *testing.B) {
			api := benchmarkAPI(b, 0)
			append := func() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, row.path, strings.NewReader(row.body))
				r.Header.Set("Content-Type", row.contentType)
				api.Handler().ServeHTTP(httptest.NewRecorder(), r)
			}
			b.SetBytes(int64(len(row.body)))
			b.ReportAllocs()
			for b.Loop() {
				append()
			}
			b.ReportMetric(testing.AllocsPerRun(100, append)/records, "allocs/record")
		})
	}
}

// What net/http and the protocol cost together for each request, over a real
// connection to a client that costs nothing; and net/http alone.
func BenchmarkAppendOverHTTP(b *testing.B) {
	benchmarkHTTP(b, benchmarkAPI(b, 0).Handler())
}

func BenchmarkTrivialOverHTTP(b *testing.B) {
	benchmarkHTTP(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a failure ends the benchmark in the client
		w.WriteHeader(http.StatusOK)
	}))
}

func benchmarkHTTP(b *testing.B, handler http.Handler) {
	server := httptest.NewServer(handler)
	defer server.Close()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	request := []byte("POST /a HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nContent-Length: 256\r\n\r\n" + strings.Repeat("x", 256))
	answer := make([]byte, 4<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		n, err := conn.Read(answer) // it comes whole, in one write
		if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200 ")) {
			b.Fatalf("%v: %s", err, answer[:n])
		}
	}
}

func BenchmarkDurableRead(b *testing.B) {
	api := benchmarkAPI(b, 200)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/v1/stream/a?offset=-1", http.NoBody)
		api.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
}

// takesAll is a connection that takes everything at once.
type takesAll struct{ http.ResponseWriter }

func (takesAll) Write(p []byte) (int, error)      { return len(p), nil }
func (takesAll) FlushError() error                { return nil }
func (takesAll) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkSharedEvent is one reader's part of an event that all share.
func BenchmarkSharedEvent(b *testing.B) {
	api := benchmarkAPI(b, 1000)
	for name, format := range map[string]eventFormat{"durable": durableFormat(typeText, api.newCursor("")), "pico": picoEventFormat{}} {
		b.Run(name, func(b *testing.B) {
			s := &subscription{
				api: api, until: time.Now().Add(time.Hour), out: eventWriter{w: &exchange{ResponseWriter: takesAll{}, status: http.StatusOK}, timeout: api.config.WriteTimeout},
				follower: follower{name: "a", info: api.config.Streams.(canned).chunk.Info, format: format},
			}
			b.ReportAllocs()
			for b.Loop() {
				e, err := s.nextEvent(b.Context(), 0)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.out.event(e, s.format); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
