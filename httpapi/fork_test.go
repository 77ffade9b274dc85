package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// source makes the stream "src" of a content type with a body in each append.
func source(t *testing.T, contentType string, bodies ...string) *service {
	t.Helper()
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/src", "", "Content-Type", contentType)
	for _, body := range bodies {
		s.must(http.MethodPost, "/v1/stream/src", body, "Content-Type", contentType)
	}
	return s
}

// fromSrc are the headers of a fork of "src" in Durable Streams, and more.
func fromSrc(more ...string) []string {
	return append([]string{wire.StreamForkedFrom, "/v1/stream/src"}, more...)
}

func TestDurableForks(t *testing.T) {
	at := func(offset int, more ...string) []string {
		return fromSrc(append([]string{wire.StreamForkOffset, token(offset)}, more...)...)
	}
	sub := func(n string) []string { return []string{wire.StreamForkSubOffset, n} }
	for _, row := range []struct {
		name        string
		contentType string // of the source
		bodies      []string
		headers     []string
		body        string
		tail        int
		content     string
	}{
		{"all of text", typeText, []string{"ab", "cd"}, fromSrc(), "", 2, "abcd"},
		{"the type as it is", typeText, []string{"ab"}, fromSrc("Content-Type", "TEXT/plain; q=1"), "", 1, "ab"},
		{"up to an offset", typeText, []string{"ab", "cd"}, at(1), "", 1, "ab"},
		{"nothing", typeText, []string{"ab", "cd"}, at(0), "", 0, ""},
		{"bytes", typeText, []string{"ab", "cd"}, at(1, sub("1")...), "", 2, "abc"},
		{"all bytes of a record", typeText, []string{"ab", "cd"}, at(0, sub("2")...), "", 1, "ab"},
		{"no bytes", typeText, []string{"ab", "cd"}, at(1, sub("0")...), "", 1, "ab"},
		{"no bytes of the tail", typeText, []string{"ab"}, fromSrc(sub("0")...), "", 1, "ab"},
		{"messages", typeJSON, []string{"[1,2]", "[3,4]"}, at(0, sub("3")...), "", 3, "[1,2,3]"},
		{"messages up to the tail", typeJSON, []string{"[1,2]"}, at(1, sub("1")...), "", 2, "[1,2]"},
		{"text and a body without a type", typeText, []string{"ab"}, fromSrc(), "[1,2]", 2, "ab[1,2]"},
		{"bytes and a body without a type", "application/x", []string{"\xff"}, fromSrc(), "\x00", 2, "\xff\x00"},
		{"JSON and a body without a type", typeJSON, []string{"1"}, fromSrc(), " [2, {\"a\":3}] ", 3, `[1,2,{"a":3}]`},
		{"JSON and an empty array", typeJSON, []string{"1"}, fromSrc(), "[]", 1, "[1]"},
		{"JSON and a body with its type", typeJSON, []string{"1"}, fromSrc("Content-Type", typeJSON), "[2,3]", 3, "[1,2,3]"},
		{"bytes and a body after a cut", typeText, []string{"hello"}, at(0, sub("3")...), "p", 2, "help"},
		{"closed", typeText, []string{"ab"}, fromSrc(wire.StreamClosed, "true"), "cd", 2, "abcd"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := source(t, row.contentType, row.bodies...)
			got := s.do(http.MethodPut, "/v1/stream/fork", row.body, row.headers...)
			require.Equal(t, 201, got.status, got.body)
			assert.Equal(t, token(row.tail), got.header.Get(wire.StreamNextOffset))
			read := s.must(http.MethodGet, "/v1/stream/fork", "")
			assert.Equal(t, row.content, read.body)
			head := s.must(http.MethodHead, "/v1/stream/fork", "")
			for _, answer := range []answer{got, read, head} {
				assert.Equal(t, stream.MediaType(row.contentType), stream.MediaType(answer.header.Get("Content-Type")))
				assertShowsNoFork(t, answer)
			}
			assertShowsNoFork(t, s.must(http.MethodHead, "/v1/stream/src", ""))
			again := s.do(http.MethodPut, "/v1/stream/fork", row.body, row.headers...)
			assert.Equal(t, 200, again.status)
			assert.Equal(t, row.content, s.must(http.MethodGet, "/v1/stream/fork", "").body)
		})
	}
}

// assertShowsNoFork: Durable Streams tells nobody where a stream comes from.
func assertShowsNoFork(t *testing.T, got answer) {
	t.Helper()
	for name := range got.header {
		assert.NotContains(t, strings.ToLower(name), "fork")
	}
}

func TestDurableForkRefusals(t *testing.T) {
	from := func(path string) []string { return []string{wire.StreamForkedFrom, path} }
	offset := func(text string) []string { return fromSrc(wire.StreamForkOffset, text) }
	sub := func(text string) []string {
		return fromSrc(wire.StreamForkOffset, token(0), wire.StreamForkSubOffset, text)
	}
	for _, row := range []struct {
		name     string
		headers  []string
		body     string
		status   int
		contains string
	}{
		{"offset alone", []string{wire.StreamForkOffset, token(0)}, "", 400, wire.StreamForkedFrom},
		{"sub-offset alone", []string{wire.StreamForkSubOffset, "0"}, "", 400, wire.StreamForkedFrom},
		{"source twice", fromSrc(wire.StreamForkedFrom, "/v1/stream/src"), "", 400, "2 times"},
		{"offset twice", fromSrc(wire.StreamForkOffset, token(0), wire.StreamForkOffset, token(0)), "", 400, "2 times"},
		{"sub-offset twice", append(sub("0"), wire.StreamForkSubOffset, "0"), "", 400, "2 times"},
		{"source that is empty", from(""), "", 400, "/v1/stream/"},
		{"source without a slash", from("v1/stream/src"), "", 400, "/v1/stream/"},
		{"source as a name", from("src"), "", 400, "/v1/stream/"},
		{"source of Pico", from("/src"), "", 400, "/v1/stream/"},
		{"source that is a URL", from("http://127.0.0.1/v1/stream/src"), "", 400, "path of the source on this server"},
		{"source at a host", from("//evil.example/v1/stream/src"), "", 400, "path of the source on this server"},
		{"root with an escape", from("/v1%2Fstream/src"), "", 400, "/v1/stream/"},
		{"root alone", from("/v1/stream/"), "", 400, "empty"},
		{"doubled slash", from("/v1/stream//src"), "", 400, "empty segment"},
		{"escaped doubled slash", from("/v1/stream/a%2F%2Fsrc"), "", 400, "empty segment"},
		{"dots", from("/v1/stream/x/../src"), "", 400, `".."`},
		{"escaped dots", from("/v1/stream/x/%2e%2E/src"), "", 400, `".."`},
		{"dots above the root", from("/v1/stream/../../etc/passwd"), "", 400, `".."`},
		{"query", from("/v1/stream/src?offset=1"), "", 400, "query"},
		{"fragment", from("/v1/stream/src#1"), "", 400, "fragment"},
		{"bad escape", from("/v1/stream/%zz"), "", 400, "%zz"},
		{"cut escape", from("/v1/stream/a%2"), "", 400, "%2"},
		{"escaped NUL", from("/v1/stream/a%00"), "", 400, "NUL"},
		{"escapes that are not UTF-8", from("/v1/stream/%ff"), "", 400, "UTF-8"},
		{"bytes that are not UTF-8", from("/v1/stream/\xff"), "", 400, "UTF-8"},
		{"reserved segment", from("/v1/stream/__ds/subscriptions/a"), "", 400, "__ds"},
		{"escaped reserved segment", from("/v1/stream/%5F%5Fds"), "", 400, "__ds"},
		{"name of 2 KiB", from("/v1/stream/" + strings.Repeat("n", 2<<10)), "", 400, "2048 bytes"},
		{"of itself", from("/v1/stream/fork"), "", 400, "itself"},
		{"offset of the beginning", offset("-1"), "", 400, wire.StreamNextOffset},
		{"offset of the tail", offset("now"), "", 400, wire.StreamNextOffset},
		{"offset that is empty", offset(""), "", 400, wire.StreamNextOffset},
		{"offset of Pico", offset("1"), "", 400, wire.StreamNextOffset},
		{"offset beyond the tail", offset(token(3)), "", 400, "beyond"},
		{"offset beyond every tail", offset("9999999999999999_9999999999999999"), "", 400, "beyond"},
		{"sub-offset without an offset", fromSrc(wire.StreamForkSubOffset, "1"), "", 400, wire.StreamForkOffset},
		{"sub-offset that is empty", sub(""), "", 400, wire.StreamForkSubOffset},
		{"sub-offset with a sign", sub("-1"), "", 400, wire.StreamForkSubOffset},
		{"sub-offset with a plus", sub("+1"), "", 400, wire.StreamForkSubOffset},
		{"sub-offset with a leading zero", sub("01"), "", 400, wire.StreamForkSubOffset},
		{"sub-offset of zeros", sub("00"), "", 400, wire.StreamForkSubOffset},
		{"sub-offset as a fraction", sub("1.0"), "", 400, wire.StreamForkSubOffset},
		{"sub-offset as hexadecimal", sub("0x1"), "", 400, wire.StreamForkSubOffset},
		{"sub-offset in other digits", sub("\u0661"), "", 400, wire.StreamForkSubOffset},
		{"sub-offset past 64 bits", sub("18446744073709551616"), "", 400, "too large"},
		{"sub-offset past the record", sub("6"), "", 400, "beyond"},
		{"sub-offset of 64 bits", sub("18446744073709551615"), "", 400, "beyond"},
		{"header of Pico", fromSrc(wire.PicoForkSeq, "0"), "", 400, "Pico"},
		{"source in Pico's header", []string{wire.PicoForkedFrom, "/src"}, "", 400, "Pico"},
		{"no such source", from("/v1/stream/none"), "", 404, "none"},
		{"another type", fromSrc("Content-Type", typeJSON), "[1]", 409, "text/plain"},
		{"another type whose body is spoilt", fromSrc("Content-Type", typeJSON), "[1", 400, "JSON"},
		{"both expiries", fromSrc(wire.StreamTTL, "1", wire.StreamExpiresAt, "2030-01-01T00:00:00Z"), "", 400, "exclude"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := source(t, typeText, "hello", "world")
			got := s.do(http.MethodPut, "/v1/stream/fork", row.body, row.headers...)
			assert.Equal(t, row.status, got.status, got.body)
			assertDurableError(t, got)
			assert.Contains(t, strings.ReplaceAll(got.body, `\"`, `"`), row.contains)
			assertNothingRemains(t, s)
		})
	}
}

// assertNothingRemains: a fork that was refused is not there, and its source
// knows of none.
func assertNothingRemains(t *testing.T, s *service) {
	t.Helper()
	assert.Equal(t, 404, s.do(http.MethodHead, "/fork", "").status)
	assert.Empty(t, s.must(http.MethodHead, "/src", "").header.Get(wire.PicoForks))
	s.must(http.MethodDelete, "/src", "")
	assert.Equal(t, 404, s.do(http.MethodHead, "/src", "").status)
}

func TestDurableForkBodiesMustFitTheInheritedType(t *testing.T) {
	for body, contains := range map[string]string{
		`{"a":`:                         "not valid JSON",
		"\"\xff\"":                      "UTF-8",
		strings.Repeat("[", 1000) + "]": "deeper than",
		" ":                             "not valid JSON",
	} {
		s := source(t, typeJSON, "[1]")
		got := s.do(http.MethodPut, "/v1/stream/fork", body, fromSrc()...)
		assert.Equal(t, 400, got.status, body)
		assertDurableError(t, got)
		assert.Contains(t, got.body, contains)
		assertNothingRemains(t, s)
	}
}

func TestRecordsOfAForkCountAgainstTheBudgetOfBodies(t *testing.T) {
	s := newService(t, func(c *Config) { c.MaxBody, c.BodyBudget = 1<<20, 1<<20 })
	s.must(http.MethodPut, "/v1/stream/src", "", "Content-Type", typeJSON)
	s.api.bodies.Add(1 << 19) // of others
	array := "[" + strings.Repeat("1,", 20_000) + "1]"
	got := s.do(http.MethodPut, "/v1/stream/fork", array, fromSrc()...)
	assert.Equal(t, 503, got.status, got.body)
	assert.NotEmpty(t, got.header.Get("Retry-After"))
	assert.Equal(t, 404, s.do(http.MethodHead, "/fork", "").status)
	s.api.bodies.Add(-1 << 19)
	s.must(http.MethodPut, "/v1/stream/fork", array, fromSrc()...)
	require.Eventually(t, func() bool { return s.api.bodies.Load() == 0 }, readyTimeout, readyTick)
}

func TestRecordsOfAForkAreBounded(t *testing.T) {
	s := source(t, typeJSON)
	got := s.do(http.MethodPut, "/v1/stream/fork", "["+strings.Repeat("1,", stream.MaxRecords)+"1]", fromSrc()...)
	assert.Equal(t, 413, got.status)
	assertNothingRemains(t, s)
}

func TestForkHeadersSayNothingToOtherMethods(t *testing.T) {
	s := source(t, typeText, "a")
	for _, name := range durableForkHeaders {
		got := s.do(http.MethodPost, "/v1/stream/src", "b", "Content-Type", typeText, name, "/v1/stream/x")
		assert.Equal(t, 400, got.status, name)
		assert.Contains(t, got.body, "PUT")
	}
	for _, name := range []string{wire.PicoForkedFrom, wire.PicoForkSeq, wire.PicoForkSubOffset, wire.PicoForks} {
		got := s.do(http.MethodPost, "/src", "b", name, "/x")
		assert.Equal(t, 400, got.status, name)
		assert.Contains(t, picoError(t, got).Message, name)
	}
	assert.Equal(t, "a", s.must(http.MethodGet, "/v1/stream/src", "").body)
}

func TestATrimmedForkOffsetIsGoneWithTheEarliest(t *testing.T) {
	s := source(t, typeText, "a", "b", "c")
	s.must(http.MethodPost, "/src", "", wire.PicoTrimSeq, "2")
	got := s.do(http.MethodPut, "/v1/stream/fork", "", fromSrc(wire.StreamForkOffset, token(1))...)
	assert.Equal(t, 410, got.status)
	assertDurableError(t, got)
	assert.Contains(t, got.body, token(2), "as a read of a trimmed offset says it")
	got = s.do(http.MethodPut, "/fork", "", wire.PicoForkedFrom, "/src", wire.PicoForkSeq, "1")
	assert.Equal(t, 410, got.status)
	assert.Equal(t, "2", got.header.Get(wire.PicoStartSeq))
	assert.EqualValues(t, 2, *picoError(t, got).EarliestSeq)
	s.must(http.MethodPut, "/fork", "", wire.PicoForkedFrom, "/src", wire.PicoForkSeq, "2")
}

func TestDeletedStreamsThatForksKeep(t *testing.T) {
	for _, row := range []struct {
		method, path string
		headers      []string
		status       int
	}{
		{http.MethodHead, "/v1/stream/src", nil, 410},
		{http.MethodGet, "/v1/stream/src", nil, 410},
		{http.MethodGet, "/v1/stream/src?live=long-poll&offset=now", nil, 410},
		{http.MethodGet, "/v1/stream/src?live=sse&offset=-1", nil, 410},
		{http.MethodPost, "/v1/stream/src", []string{"Content-Type", typeText}, 410},
		{http.MethodDelete, "/v1/stream/src", nil, 410},
		{http.MethodPut, "/v1/stream/src", []string{"Content-Type", typeText}, 409},
		{http.MethodPut, "/v1/stream/another", fromSrc(), 409},
		{http.MethodHead, "/src", nil, 410},
		{http.MethodGet, "/src", nil, 410},
		{http.MethodGet, "/src?seq=99", nil, 410},
		{http.MethodGet, "/src?live=long-poll", nil, 410},
		{http.MethodGet, "/src?live=sse", nil, 410},
		{http.MethodPost, "/src", nil, 410},
		{http.MethodDelete, "/src", nil, 410},
		{http.MethodPut, "/src", nil, 409},
		{http.MethodPut, "/another", []string{wire.PicoForkedFrom, "/src"}, 409},
	} {
		t.Run(row.method+" "+row.path, func(t *testing.T) {
			s := source(t, typeText, "a")
			s.must(http.MethodPut, "/v1/stream/fork", "", fromSrc()...)
			s.must(http.MethodDelete, "/v1/stream/src", "")
			body := ""
			if row.method == http.MethodPost || row.method == http.MethodPut {
				body = "x"
			}
			got := s.do(row.method, row.path, body, row.headers...)
			assert.Equal(t, row.status, got.status, got.body)
			if row.method == http.MethodHead {
				return
			}
			assert.Contains(t, got.body, "deleted")
			if strings.HasPrefix(row.path, durableRoot) {
				assertDurableError(t, got)
				return
			}
			assert.Contains(t, []string{wire.ErrorGone, wire.ErrorConflict}, picoError(t, got).Error)
			assert.Nil(t, picoError(t, got).EarliestSeq, "it is not a trimmed one")
		})
	}
}

func TestReadersOfAStreamThatIsDeletedWhileForksLive(t *testing.T) {
	s := source(t, typeText, "a")
	s.must(http.MethodPut, "/v1/stream/fork", "", fromSrc()...)
	durable := s.later("/v1/stream/src?live=long-poll&offset=now")
	pico := s.later("/src?live=long-poll&seq=now")
	events := &eventReader{t: t, body: s.open(t.Context(), "/v1/stream/src?live=sse&offset=now").Body}
	events.expect(controlEvent(1, isUpToDate))
	s.awaitWaiting(3)
	s.must(http.MethodDelete, "/src", "")
	assert.Equal(t, 410, (<-durable).status)
	assert.Equal(t, 410, (<-pico).status)
	events.expectEnd()
	assert.Empty(t, s.log.String(), "it is no fault")
}

func TestForkHeadersAreExposedToBrowsers(t *testing.T) {
	s := newService(t)
	exposed := s.do(http.MethodGet, "/none", "").header.Get("Access-Control-Expose-Headers")
	for _, name := range []string{wire.PicoForkedFrom, wire.PicoForkSeq, wire.PicoForkSubOffset, wire.PicoForks} {
		assert.Contains(t, strings.Split(exposed, ", "), name)
	}
	allowed := s.do(http.MethodOptions, "/a", "").header.Get("Access-Control-Allow-Headers")
	for _, name := range append([]string{wire.PicoForkedFrom, wire.PicoForkSeq}, durableForkHeaders...) {
		assert.Contains(t, strings.Split(allowed, ", "), name)
	}
}

func TestForksInheritExpiry(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/src", "a", "Content-Type", typeText, wire.StreamTTL, "10")
	s.must(http.MethodPut, "/v1/stream/same", "", fromSrc()...)
	s.must(http.MethodPut, "/v1/stream/longer", "", fromSrc(wire.StreamTTL, "100")...)
	s.must(http.MethodPut, "/v1/stream/fixed", "", fromSrc(wire.StreamExpiresAt, "2100-01-01T00:00:00Z")...)
	assert.Equal(t, "10", s.must(http.MethodHead, "/v1/stream/same", "").header.Get(wire.StreamTTL))
	assert.Equal(t, "100", s.must(http.MethodHead, "/v1/stream/longer", "").header.Get(wire.StreamTTL))
	assert.Equal(t, "2100-01-01T00:00:00Z", s.must(http.MethodHead, "/v1/stream/fixed", "").header.Get(wire.StreamExpiresAt))

	s.streams.Advance(9 * time.Second)
	s.must(http.MethodGet, "/v1/stream/same", "")
	s.streams.Advance(time.Second)
	assert.Equal(t, 404, s.do(http.MethodHead, "/v1/stream/src", "").status, "neither forks nor their readers keep it")
	for _, fork := range []string{"same", "longer", "fixed"} {
		assert.Equal(t, "a", s.must(http.MethodGet, "/v1/stream/"+fork, "").body)
	}
	again := s.do(http.MethodPut, "/v1/stream/same", "", fromSrc()...)
	assert.Equal(t, 200, again.status, "what was left out is whatever it became")
	assert.Equal(t, 404, s.do(http.MethodPut, "/v1/stream/late", "", fromSrc()...).status)
}
