package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
