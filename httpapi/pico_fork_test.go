package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

func TestPicoForkRefusals(t *testing.T) {
	from := func(path string, more ...string) []string {
		return append([]string{wire.PicoForkedFrom, path}, more...)
	}
	seq := func(text string) []string { return from("/src", wire.PicoForkSeq, text) }
	for _, row := range []struct {
		name     string
		headers  []string
		status   int
		contains string
	}{
		{"sequence alone", []string{wire.PicoForkSeq, "0"}, 400, wire.PicoForkedFrom},
		{"source twice", from("/src", wire.PicoForkedFrom, "/src"), 400, "2 times"},
		{"sequence twice", from("/src", wire.PicoForkSeq, "0", wire.PicoForkSeq, "0"), 400, "2 times"},
		{"source that is empty", from(""), 400, "begins with /"},
		{"source without a slash", from("src"), 400, "begins with /"},
		{"source that is a URL", from("https://127.0.0.1/src"), 400, "path of the source on this server"},
		{"source at a host", from("//evil.example/src"), 400, "empty segment"},
		{"source of Durable Streams", from("/v1/stream/src"), 400, `"/src"`},
		{"root alone", from("/"), 400, "empty"},
		{"trailing slash", from("/src/"), 400, "empty segment"},
		{"dots", from("/x/../src"), 400, `".."`},
		{"escaped dots", from("/x/%2e%2e/src"), 400, `".."`},
		{"query", from("/src?seq=1"), 400, "query"},
		{"bad escape", from("/%"), 400, "escape"},
		{"not UTF-8", from("/%C3"), 400, "UTF-8"},
		{"reserved segment", from("/__ds/x"), 400, "__ds"},
		{"name of 2 KiB", from("/" + strings.Repeat("n", 2<<10)), 400, "2048 bytes"},
		{"of itself", from("/fork"), 400, "itself"},
		{"of itself with an escape", from("/f%6Frk"), 400, "itself"},
		{"sequence with a sign", seq("-1"), 400, wire.PicoForkSeq},
		{"sequence that is a word", seq("now"), 400, wire.PicoForkSeq},
		{"sequence that is a token", seq(token(0)), 400, wire.PicoForkSeq},
		{"sequence that is empty", seq(""), 400, wire.PicoForkSeq},
		{"sequence past 64 bits", seq("18446744073709551616"), 400, "too large"},
		{"sequence of 64 bits", seq("18446744073709551615"), 400, "beyond"},
		{"sequence beyond the tail", seq("3"), 400, "beyond"},
		{"sub-offset", from("/src", wire.PicoForkSubOffset, "1"), 400, "Pico-Fork-Sub-Offset"},
		{"header of Durable Streams", from("/src", wire.StreamForkOffset, token(0)), 400, "Durable Streams"},
		{"source in the header of Durable Streams", []string{wire.StreamForkedFrom, "/v1/stream/src"}, 400, "Durable Streams"},
		{"retention of nothing", from("/src", wire.PicoRetentionAge, "0"), 400, "Pico-Retention-Age"},
		{"no such source", from("/none"), 404, "none"},
		{"another type", from("/src", "Content-Type", typeJSON), 409, "text/plain"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := source(t, typeText, "hello", "world")
			got := s.do(http.MethodPut, "/fork", "", row.headers...)
			assert.Equal(t, row.status, got.status, got.body)
			assert.Contains(t, picoError(t, got).Message, row.contains)
			assertNothingRemains(t, s)
		})
	}
}

func TestPicoHeadOfForks(t *testing.T) {
	for _, row := range []struct {
		name    string // of the source, as Pico spells it
		durable string // as Durable Streams does
	}{
		{"/a/b", "/v1/stream/a/b"},
		{"/a%20b%25%3F%23", "/v1/stream/a%20b%25%3F%23"},
		{"/%C3%A9%0A", "/v1/stream/%C3%A9%0A"},
		{"/v1%2Fstream/x", "/v1/stream/v1/stream/x"},
	} {
		s := newService(t)
		s.must(http.MethodPut, row.durable, "hello", "Content-Type", typeText)
		s.must(http.MethodPut, "/v1/stream/fork", "", wire.StreamForkedFrom, row.durable,
			wire.StreamForkOffset, token(0), wire.StreamForkSubOffset, "2")
		h := s.must(http.MethodHead, "/fork", "").header
		assert.Equal(t, row.name, h.Get(wire.PicoForkedFrom))
		assert.Equal(t, "0", h.Get(wire.PicoForkSeq))
		assert.Equal(t, "2", h.Get(wire.PicoForkSubOffset))
		assert.Empty(t, h.Get(wire.PicoForks))
		s.must(http.MethodPut, "/again", "", wire.PicoForkedFrom, h.Get(wire.PicoForkedFrom))
		h = s.must(http.MethodHead, row.name, "").header
		assert.Equal(t, "2", h.Get(wire.PicoForks))
		assert.Empty(t, h.Get(wire.PicoForkedFrom))
		assert.Equal(t, "he", s.must(http.MethodGet, "/fork?format=raw", "").body)
	}
}

// A header's path is read as the router reads a request's, and what HEAD answers
// is read back as the name that it stands for.
func FuzzForkSource(f *testing.F) {
	f.Add("/a/b")
	f.Add("/v1/stream/a%2Fb")
	f.Add("/v1%2Fstream/a")
	f.Add("/%3F%23%25")
	f.Add("//host/a")
	f.Fuzz(func(t *testing.T, path string) {
		r := &http.Request{Header: http.Header{wire.PicoForkedFrom: {path}}}
		fork, err := picoFork(r)
		if err != nil {
			require.Equal(t, stream.CodeBadRequest, stream.CodeOf(err))
			return
		}
		name, err := stream.ParseName(string(fork.From))
		require.NoError(t, err)
		require.Equal(t, name, fork.From)
		r.Header.Set(wire.PicoForkedFrom, picoPath(name))
		again, err := picoFork(r)
		require.NoError(t, err)
		require.Equal(t, name, again.From)
	})
}
