package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

func TestDurableHead(t *testing.T) {
	for _, row := range []struct {
		name        string
		headers     []string
		ttl, at     string
		closed, typ string
	}{
		{"plain", []string{"Content-Type", "text/plain; charset=utf-8"}, "", "", "", "text/plain; charset=utf-8"},
		{"TTL as configured", []string{wire.StreamTTL, "3600"}, "3600", "", "", stream.DefaultContentType},
		{"deadline", []string{wire.StreamExpiresAt, "2030-01-01T01:00:00.5+01:00"}, "", "2030-01-01T00:00:00.5Z", "", stream.DefaultContentType},
		{"closed", []string{wire.StreamClosed, "true"}, "", "", "true", stream.DefaultContentType},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t)
			s.must(http.MethodPut, "/v1/stream/a", "abc", row.headers...)
			got := s.do(http.MethodHead, "/v1/stream/a", "")
			assert.Equal(t, 200, got.status)
			assert.Equal(t, row.typ, got.header.Get("Content-Type"))
			assert.Equal(t, token(1), got.header.Get(wire.StreamNextOffset))
			assert.Equal(t, row.ttl, got.header.Get(wire.StreamTTL))
			assert.Equal(t, row.at, got.header.Get(wire.StreamExpiresAt))
			assert.Equal(t, row.closed, got.header.Get(wire.StreamClosed))
			assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
			assert.Empty(t, got.body)
		})
	}
}

// abc is a stream of three records, perhaps closed.
func abc(t *testing.T, contentType string, closed bool) *service {
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", contentType)
	for _, body := range []string{`"a"`, `"b"`, `"c"`} {
		s.must(http.MethodPost, "/v1/stream/a", body, "Content-Type", contentType)
	}
	if closed {
		s.must(http.MethodPost, "/v1/stream/a", "", wire.StreamClosed, "true")
	}
	return s
}

func TestDurableCatchUp(t *testing.T) {
	for _, row := range []struct {
		name, query  string
		typ          string
		closed       bool
		body         string
		next         int
		closedHeader string
		cache        string
	}{
		{"from the beginning", "", typeText, false, `"a""b""c"`, 3, "", "no-cache"},
		{"from -1", "?offset=-1", typeText, false, `"a""b""c"`, 3, "", "no-cache"},
		{"from the start's token", "?offset=" + token(0), typeText, false, `"a""b""c"`, 3, "", "no-cache"},
		{"from inside", "?offset=" + token(1), typeText, false, `"b""c"`, 3, "", "no-cache"},
		{"from the tail", "?offset=" + token(3), typeText, false, ``, 3, "", "no-cache"},
		{"from now", "?offset=now", typeText, false, ``, 3, "", "no-store"},
		{"JSON", "", typeJSON, false, `["a","b","c"]`, 3, "", "no-cache"},
		{"JSON from inside", "?offset=" + token(2), typeJSON, false, `["c"]`, 3, "", "no-cache"},
		{"JSON from the tail", "?offset=" + token(3), typeJSON, false, `[]`, 3, "", "no-cache"},
		{"JSON from now", "?offset=now", typeJSON, false, `[]`, 3, "", "no-store"},
		{"closed", "", typeText, true, `"a""b""c"`, 3, "true", "no-cache"},
		{"closed, from the tail", "?offset=" + token(3), typeText, true, ``, 3, "true", "no-cache"},
		{"closed, from now", "?offset=now", typeJSON, true, `[]`, 3, "true", "no-store"},
		{"parameters nobody knows", "?offset=-1&x=y", typeText, false, `"a""b""c"`, 3, "", "no-cache"},
		{"a live mode nobody knows", "?offset=-1&live=carrier-pigeon", typeText, false, `"a""b""c"`, 3, "", "no-cache"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := abc(t, row.typ, row.closed).do(http.MethodGet, "/v1/stream/a"+row.query, "")
			assert.Equal(t, 200, got.status)
			assert.Equal(t, row.body, got.body)
			assert.Equal(t, row.typ, got.header.Get("Content-Type"))
			assert.Equal(t, token(row.next), got.header.Get(wire.StreamNextOffset))
			assert.Equal(t, "true", got.header.Get(wire.StreamUpToDate))
			assert.Equal(t, row.closedHeader, got.header.Get(wire.StreamClosed))
			assert.Equal(t, row.cache, got.header.Get("Cache-Control"))
			assert.Equal(t, row.cache == "no-store", got.header.Get("ETag") == "", "an ETag unless from now")
		})
	}
}

func TestDurableOffsetsThatAreRefused(t *testing.T) {
	s := abc(t, typeText, false)
	for _, row := range []struct{ name, query string }{
		{"empty", "offset="},
		{"twice", "offset=-1&offset=-1"},
		{"comma", "offset=" + url.QueryEscape("0,1")},
		{"space", "offset=" + url.QueryEscape(token(0)+" ")},
		{"slash", "offset=" + url.QueryEscape("../"+token(0))},
		{"NUL", "offset=%00"},
		{"CR LF", "offset=" + url.QueryEscape(token(0)+"\r\n")},
		{"a bare number", "offset=1"},
		{"another sentinel's case", "offset=NOW"},
		{"too few digits", "offset=000000000000000_0000000000000000"},
		{"other digits", "offset=" + url.QueryEscape("0000000000000000_000000000000000１")},
		{"past the tail", "offset=" + token(4)},
		{"past every tail", "offset=9999999999999999_9999999999999999"},
		{"reserved half", "offset=0000000000000001_0000000000000000"},
		{"bad escape", "offset=%zz"},
		{"live without an offset", "live=sse"},
		{"long poll without an offset", "live=long-poll"},
		{"live twice", "offset=-1&live=sse&live=sse"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := s.do(http.MethodGet, "/v1/stream/a?"+row.query, "")
			assert.Equal(t, 400, got.status)
			assertDurableError(t, got)
		})
	}
}

func TestAnOffsetThatWasTrimmedAwayNamesTheEarliest(t *testing.T) {
	s := abc(t, typeText, false)
	_, err := s.streams.Trim(context.Background(), "a", 2)
	require.NoError(t, err)
	for _, mode := range []string{"", "&live=long-poll", "&live=sse"} {
		got := s.do(http.MethodGet, "/v1/stream/a?offset="+token(1)+mode, "")
		assert.Equal(t, 410, got.status, mode)
		assert.Contains(t, got.body, token(2), mode)
	}
	got := s.do(http.MethodGet, "/v1/stream/a?offset=-1", "")
	assert.Equal(t, `"c"`, got.body, "the beginning is the first that is left")
}

func TestALargeStreamIsReadInPieces(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeJSON)
	message := `"` + strings.Repeat("x", 1<<20-2) + `"`
	for range 6 {
		s.must(http.MethodPost, "/v1/stream/a", message, "Content-Type", typeJSON)
	}
	first := s.do(http.MethodGet, "/v1/stream/a", "")
	assert.Equal(t, token(4), first.header.Get(wire.StreamNextOffset))
	assert.Empty(t, first.header.Get(wire.StreamUpToDate))
	assert.Equal(t, cacheShared, first.header.Get("Cache-Control"))
	assert.Equal(t, "["+strings.Join([]string{message, message, message, message}, ",")+"]", first.body)
	second := s.do(http.MethodGet, "/v1/stream/a?offset="+token(4), "")
	assert.Equal(t, "["+message+","+message+"]", second.body)
	assert.Equal(t, "true", second.header.Get(wire.StreamUpToDate))
	s.must(http.MethodPost, "/v1/stream/a", "", wire.StreamClosed, "true")
	assert.Empty(t, s.do(http.MethodGet, "/v1/stream/a", "").header.Get(wire.StreamClosed), "it does not reach the end")
}

func TestARecordAboveTheLimitComesAlone(t *testing.T) {
	s := newService(t)
	large := strings.Repeat("y", maxReadBytes+1)
	s.must(http.MethodPut, "/v1/stream/a", large, "Content-Type", typeText)
	s.must(http.MethodPost, "/v1/stream/a", "z", "Content-Type", typeText)
	got := s.do(http.MethodGet, "/v1/stream/a", "")
	assert.Equal(t, len(large), len(got.body))
	assert.Equal(t, token(1), got.header.Get(wire.StreamNextOffset))
}

// tagOf is the entity tag of a read.
func tagOf(s *service, query string) string {
	tag := s.must(http.MethodGet, "/v1/stream/a"+query, "").header.Get("ETag")
	require.NotEmpty(s.t, tag)
	return tag
}

func TestEntityTagsTellResponsesApart(t *testing.T) {
	s := abc(t, typeText, false)
	all := tagOf(s, "")
	assert.Equal(t, all, tagOf(s, "?offset=-1"), "the same bytes")
	tags := map[string]string{all: "all"}
	note := func(tag, what string) {
		assert.NotContains(t, tags, tag, what)
		tags[tag] = what
	}
	note(tagOf(s, "?offset="+token(1)), "another start")
	s.must(http.MethodPost, "/v1/stream/a", "d", "Content-Type", typeText)
	note(tagOf(s, ""), "another end")
	s.must(http.MethodPost, "/v1/stream/a", "", wire.StreamClosed, "true")
	note(tagOf(s, ""), "closed")
	s.must(http.MethodDelete, "/v1/stream/a", "")
	s.must(http.MethodPut, "/v1/stream/a", `"a"`, "Content-Type", typeText)
	s.must(http.MethodPost, "/v1/stream/a", `"b"`, "Content-Type", typeText)
	s.must(http.MethodPost, "/v1/stream/a", `"c"`, "Content-Type", typeText)
	note(tagOf(s, ""), "deleted and made again with the same bytes")
}

func TestIfNoneMatch(t *testing.T) {
	s := abc(t, typeText, true)
	tag := tagOf(s, "")
	for _, row := range []struct {
		name, field string
		status      int
	}{
		{"the tag", tag, 304},
		{"weak", "W/" + tag, 304},
		{"in a list", `"x", W/"y,z" ,` + tag, 304},
		{"any", "*", 304},
		{"another", `"x"`, 200},
		{"unquoted", strings.Trim(tag, `"`), 200},
		{"cut off", tag[:len(tag)-1], 200},
		{"empty", "", 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := s.do(http.MethodGet, "/v1/stream/a", "", "If-None-Match", row.field)
			assert.Equal(t, row.status, got.status)
			assert.Equal(t, tag, got.header.Get("ETag"))
			assert.Equal(t, token(3), got.header.Get(wire.StreamNextOffset))
			assert.Equal(t, "true", got.header.Get(wire.StreamClosed))
			assert.Equal(t, row.status == 304, got.body == "")
		})
	}
	t.Run("in a second header", func(t *testing.T) {
		got := s.do(http.MethodGet, "/v1/stream/a", "", "If-None-Match", `"x"`, "If-None-Match", tag)
		assert.Equal(t, 304, got.status)
	})
}

func TestAnAnswerFromAnOldViewClaimsNothing(t *testing.T) {
	s := abc(t, typeText, true)
	stale := staleStreams{s.streams}
	s.api.config.Streams = stale
	got := s.do(http.MethodGet, "/v1/stream/a", "")
	assert.Equal(t, 200, got.status)
	assert.Equal(t, "1500", got.header.Get(wire.PicoStaleMs))
	assert.Empty(t, got.header.Get(wire.StreamUpToDate))
	assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
}

// staleStreams answers reads as a node does that cannot ask the log.
type staleStreams struct{ Streams }

func (s staleStreams) Read(ctx context.Context, name stream.Name, r stream.ReadRequest) (*stream.Chunk, error) {
	chunk, err := s.Streams.Read(ctx, name, r)
	if chunk != nil {
		chunk.StaleMillis = 1500
	}
	return chunk, err
}
