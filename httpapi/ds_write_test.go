package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

const (
	typeText = "text/plain"
	typeJSON = wire.TypeJSON
)

// token is the offset token of a position.
func token(offset int) string { return wire.FormatToken(stream.Offset(offset)) }

func TestDurableCreateAnswers(t *testing.T) {
	closed := []string{wire.StreamClosed, "true"}
	for _, row := range []struct {
		name    string
		headers []string
		body    string
		status  int
		tail    int
		typ     string
		closed  string
	}{
		{"nothing said", nil, "", 201, 0, "application/octet-stream", ""},
		{"type with parameters, as sent", []string{"Content-Type", "Text/Plain; charset=utf-8"}, "", 201, 0, "Text/Plain; charset=utf-8", ""},
		{"first append", []string{"Content-Type", typeText}, "hello", 201, 1, typeText, ""},
		{"JSON messages", []string{"Content-Type", typeJSON}, `[1,{"a":2}]`, 201, 2, typeJSON, ""},
		{"JSON value", []string{"Content-Type", typeJSON}, ` null `, 201, 1, typeJSON, ""},
		{"empty JSON array", []string{"Content-Type", typeJSON}, ` [ ] `, 201, 0, typeJSON, ""},
		{"a +json type is bytes", []string{"Content-Type", "application/a+json"}, `[1,`, 201, 1, "application/a+json", ""},
		{"closed and empty", closed, "", 201, 0, "application/octet-stream", "true"},
		{"closed with content", append([]string{"Content-Type", typeText}, closed...), "all of it", 201, 1, typeText, "true"},
		{"closed in any case", []string{wire.StreamClosed, "TRUE"}, "", 201, 0, "application/octet-stream", "true"},
		{"not closed by another value", []string{wire.StreamClosed, "1"}, "", 201, 0, "application/octet-stream", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t)
			got := s.do(http.MethodPut, "/v1/stream/a/b%20c", row.body, row.headers...)
			assert.Equal(t, row.status, got.status, got.body)
			assert.Equal(t, row.typ, got.header.Get("Content-Type"))
			assert.Equal(t, token(row.tail), got.header.Get(wire.StreamNextOffset))
			assert.Equal(t, row.closed, got.header.Get(wire.StreamClosed))
			assert.Equal(t, s.server.URL+"/v1/stream/a/b%20c", got.header.Get("Location"))
			assert.Empty(t, got.body)
		})
	}
}

func TestDurableCreateRefusals(t *testing.T) {
	for _, row := range []struct {
		name    string
		headers []string
		body    string
		status  int
	}{
		{"both expiries", []string{wire.StreamTTL, "1", wire.StreamExpiresAt, "2030-01-01T00:00:00Z"}, "", 400},
		{"TTL with a leading zero", []string{wire.StreamTTL, "01"}, "", 400},
		{"TTL with a sign", []string{wire.StreamTTL, "+1"}, "", 400},
		{"negative TTL", []string{wire.StreamTTL, "-1"}, "", 400},
		{"TTL as a fraction", []string{wire.StreamTTL, "1.5"}, "", 400},
		{"TTL with an exponent", []string{wire.StreamTTL, "1e3"}, "", 400},
		{"TTL as text", []string{wire.StreamTTL, "soon"}, "", 400},
		{"empty TTL", []string{wire.StreamTTL, ""}, "", 400},
		{"TTL that overflows", []string{wire.StreamTTL, "99999999999999999999"}, "", 400},
		{"TTL that overflows in milliseconds", []string{wire.StreamTTL, "9007199254741"}, "", 400},
		{"TTL twice", []string{wire.StreamTTL, "1", wire.StreamTTL, "1"}, "", 400},
		{"expiry that is no time", []string{wire.StreamExpiresAt, "tomorrow"}, "", 400},
		{"expiry without a zone", []string{wire.StreamExpiresAt, "2030-01-01T00:00:00"}, "", 400},
		{"expiry with a comma", []string{wire.StreamExpiresAt, "2030-01-01T00:00:00,5Z"}, "", 400},
		{"expiry twice", []string{wire.StreamExpiresAt, "2030-01-01T00:00:00Z", wire.StreamExpiresAt, "2030-01-01T00:00:00Z"}, "", 400},
		{"content type twice", []string{"Content-Type", typeText, "Content-Type", typeJSON}, "", 400},
		{"closed twice", []string{wire.StreamClosed, "false", wire.StreamClosed, "true"}, "", 400},
		{"long content type", []string{"Content-Type", "text/" + strings.Repeat("x", stream.MaxContentType)}, "", 400},
		{"content type beyond ASCII", []string{"Content-Type", "text/caf\xe9"}, "", 400},
		{"invalid JSON", []string{"Content-Type", typeJSON}, `{"a":`, 400},
		{"JSON that is not UTF-8", []string{"Content-Type", typeJSON}, "\"\xff\"", 400},
		{"JSON of space", []string{"Content-Type", typeJSON}, "  ", 400},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t)
			got := s.do(http.MethodPut, "/v1/stream/a", row.body, row.headers...)
			assert.Equal(t, row.status, got.status)
			assertDurableError(t, got)
			assert.Equal(t, 404, s.do(http.MethodHead, "/v1/stream/a", "").status, "nothing may remain")
		})
	}
}

func assertDurableError(t *testing.T, got answer) {
	t.Helper()
	assert.Equal(t, typeJSON, got.header.Get("Content-Type"))
	assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
	assert.Regexp(t, `^\{"error":\{"code":"[a-z_]+","message":".+"\}\}$`, got.body)
}

func TestDurableCreateOfWhatExists(t *testing.T) {
	base := []string{"Content-Type", typeText, wire.StreamExpiresAt, "2030-01-01T00:00:00Z"}
	for _, row := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"the same", base, 200},
		{"type in another case, with parameters", []string{"Content-Type", "TEXT/plain; charset=utf-8", wire.StreamExpiresAt, "2030-01-01T00:00:00Z"}, 200},
		{"the same instant in another zone", []string{"Content-Type", typeText, wire.StreamExpiresAt, "2030-01-01T01:00:00+01:00"}, 200},
		{"another type", []string{"Content-Type", "text/html", wire.StreamExpiresAt, "2030-01-01T00:00:00Z"}, 409},
		{"another instant", []string{"Content-Type", typeText, wire.StreamExpiresAt, "2030-01-01T00:00:01Z"}, 409},
		{"no expiry", []string{"Content-Type", typeText}, 409},
		{"a TTL", []string{"Content-Type", typeText, wire.StreamTTL, "60"}, 409},
		{"closed", append([]string{wire.StreamClosed, "true"}, base...), 409},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t)
			s.must(http.MethodPut, "/v1/stream/a", "first", base...)
			got := s.do(http.MethodPut, "/v1/stream/a", "second", row.headers...)
			assert.Equal(t, row.status, got.status)
			assert.Empty(t, got.header.Get("Location"))
			if row.status == 200 {
				assert.Equal(t, token(1), got.header.Get(wire.StreamNextOffset))
				assert.Equal(t, typeText, got.header.Get("Content-Type"))
			}
			assert.Equal(t, "first", s.do(http.MethodGet, "/v1/stream/a", "").body)
		})
	}
}

func TestDurableCreateOfOneClosedSince(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "")
	s.must(http.MethodPost, "/v1/stream/a", "", wire.StreamClosed, "true")
	assert.Equal(t, 409, s.do(http.MethodPut, "/v1/stream/a", "").status)
	got := s.do(http.MethodPut, "/v1/stream/a", "", wire.StreamClosed, "true")
	assert.Equal(t, 200, got.status)
	assert.Equal(t, "true", got.header.Get(wire.StreamClosed))
}

func TestLocationNamesTheSchemeAProxySays(t *testing.T) {
	s := newService(t)
	got := s.must(http.MethodPut, "/v1/stream/a", "", "X-Forwarded-Proto", "https")
	assert.Equal(t, strings.Replace(s.server.URL, "http:", "https:", 1)+"/v1/stream/a", got.header.Get("Location"))
}

func TestDurableAppendAnswers(t *testing.T) {
	for _, row := range []struct {
		name    string
		headers []string
		body    string
		status  int
		tail    int
		closed  string
		content string
	}{
		{"append", []string{"Content-Type", typeText}, "b", 204, 2, "", "ab"},
		{"type with other parameters", []string{"Content-Type", "TEXT/Plain; x=y"}, "b", 204, 2, "", "ab"},
		{"append and close", []string{"Content-Type", typeText, wire.StreamClosed, "true"}, "b", 204, 2, "true", "ab"},
		{"close only", []string{wire.StreamClosed, "true"}, "", 204, 1, "true", "a"},
		{"close only with another type", []string{"Content-Type", typeJSON, wire.StreamClosed, "True"}, "", 204, 1, "true", "a"},
		{"another value of Stream-Closed", []string{"Content-Type", typeText, wire.StreamClosed, "yes"}, "b", 204, 2, "", "ab"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t)
			s.must(http.MethodPut, "/v1/stream/a", "a", "Content-Type", typeText)
			got := s.do(http.MethodPost, "/v1/stream/a", row.body, row.headers...)
			assert.Equal(t, row.status, got.status, got.body)
			assert.Equal(t, token(row.tail), got.header.Get(wire.StreamNextOffset))
			assert.Equal(t, row.closed, got.header.Get(wire.StreamClosed))
			read := s.do(http.MethodGet, "/v1/stream/a", "")
			assert.Equal(t, row.content, read.body)
			assert.Equal(t, row.closed, read.header.Get(wire.StreamClosed))
		})
	}
}

func TestDurableAppendRefusals(t *testing.T) {
	producer := func(id, epoch, seq string) []string {
		return []string{"Content-Type", typeText, wire.ProducerID, id, wire.ProducerEpoch, epoch, wire.ProducerSeq, seq}
	}
	for _, row := range []struct {
		name    string
		headers []string
		body    string
		status  int
	}{
		{"empty body", []string{"Content-Type", typeText}, "", 400},
		{"empty body, Stream-Closed: false", []string{"Content-Type", typeText, wire.StreamClosed, "false"}, "", 400},
		{"no content type", nil, "b", 400},
		{"another type", []string{"Content-Type", "text/html"}, "b", 409},
		{"JSON into text", []string{"Content-Type", typeJSON}, "{}", 409},
		{"producer without epoch and seq", []string{"Content-Type", typeText, wire.ProducerID, "p"}, "b", 400},
		{"producer without id", []string{"Content-Type", typeText, wire.ProducerEpoch, "0", wire.ProducerSeq, "0"}, "b", 400},
		{"empty producer id", producer("", "0", "0"), "b", 400},
		{"long producer id", producer(strings.Repeat("p", 257), "0", "0"), "b", 400},
		{"producer id that is not UTF-8", producer("\xff", "0", "0"), "b", 400},
		{"negative epoch", producer("p", "-1", "0"), "b", 400},
		{"fractional seq", producer("p", "0", "1.5"), "b", 400},
		{"empty seq", producer("p", "0", ""), "b", 400},
		{"seq above 2^53-1", producer("p", "0", "9007199254740992"), "b", 400},
		{"producer id twice", append(producer("p", "0", "0"), wire.ProducerID, "q"), "b", 400},
		{"content type twice", []string{"Content-Type", typeText, "Content-Type", typeText}, "b", 400},
		{"closed twice", []string{"Content-Type", typeText, wire.StreamClosed, "true", wire.StreamClosed, "true"}, "b", 400},
		{"closed twice, alone", []string{wire.StreamClosed, "true", wire.StreamClosed, "false"}, "", 400},
		{"producer epoch twice", append(producer("p", "0", "0"), wire.ProducerEpoch, "1"), "b", 400},
		{"producer seq twice", append(producer("p", "0", "0"), wire.ProducerSeq, "0"), "b", 400},
		{"Stream-Seq twice", []string{"Content-Type", typeText, wire.StreamSeq, "1", wire.StreamSeq, "2"}, "b", 400},
		{"empty Stream-Seq", []string{"Content-Type", typeText, wire.StreamSeq, ""}, "b", 400},
		{"long Stream-Seq", []string{"Content-Type", typeText, wire.StreamSeq, strings.Repeat("1", 1025)}, "b", 400},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t)
			s.must(http.MethodPut, "/v1/stream/a", "a", "Content-Type", typeText)
			got := s.do(http.MethodPost, "/v1/stream/a", row.body, row.headers...)
			assert.Equal(t, row.status, got.status)
			assertDurableError(t, got)
			assert.Equal(t, "a", s.do(http.MethodGet, "/v1/stream/a", "").body, "nothing may be written")
		})
	}
	t.Run("no stream", func(t *testing.T) {
		got := newService(t).do(http.MethodPost, "/v1/stream/a", "b", "Content-Type", typeText)
		assert.Equal(t, 404, got.status)
		assertDurableError(t, got)
	})
}

func TestDurableJSONAppends(t *testing.T) {
	for _, row := range []struct {
		name, body string
		status     int
		content    string
	}{
		{"object", `{"a":1}`, 204, `[{"a":1}]`},
		{"scalar", `12`, 204, `[12]`},
		{"null", `null`, 204, `[null]`},
		{"array, one level", `[1, [2,3] ,{"a":[4]}]`, 204, `[1,[2,3],{"a":[4]}]`},
		{"nested arrays", `[[1,2],[3,4]]`, 204, `[[1,2],[3,4]]`},
		{"deeper", `[[[1]]]`, 204, `[[[1]]]`},
		{
			"text kept verbatim", `{"n":12345678901234567890,"f":1.10,"k":1,"k":2, "z" : "\u00e9"}`, 204,
			`[{"n":12345678901234567890,"f":1.10,"k":1,"k":2, "z" : "\u00e9"}]`,
		},
		{"empty array", `[]`, 400, `[]`},
		{"empty array in space", "\n[ ]\t", 400, `[]`},
		{"trailing comma", `[1,]`, 400, `[]`},
		{"two values", `1 2`, 400, `[]`},
		{"cut off", `{"a"`, 400, `[]`},
		{"no JSON", `hello`, 400, `[]`},
		{"not UTF-8", "\"\xc3\"", 400, `[]`},
		{"byte order mark", "\uFEFF1", 400, `[]`},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t)
			s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeJSON)
			got := s.do(http.MethodPost, "/v1/stream/a", row.body, "Content-Type", typeJSON)
			assert.Equal(t, row.status, got.status, got.body)
			assert.Equal(t, row.content, s.do(http.MethodGet, "/v1/stream/a", "").body)
		})
	}
}

func TestStreamSeqGrowsBytewise(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	for _, step := range []struct {
		seq    string
		status int
	}{
		{"10", 204}, {"10", 409}, {"09", 409}, {"2", 204}, {"11", 409}, {"B", 204}, {"a", 204}, {"B", 409},
	} {
		got := s.do(http.MethodPost, "/v1/stream/a", "x", "Content-Type", typeText, wire.StreamSeq, step.seq)
		assert.Equal(t, step.status, got.status, step.seq)
	}
	t.Run("without the header nothing moves", func(t *testing.T) {
		s.must(http.MethodPost, "/v1/stream/a", "x", "Content-Type", typeText)
		assert.Equal(t, 409, s.do(http.MethodPost, "/v1/stream/a", "x", "Content-Type", typeText, wire.StreamSeq, "a").status)
		assert.Equal(t, 204, s.do(http.MethodPost, "/v1/stream/a", "x", "Content-Type", typeText, wire.StreamSeq, "b").status)
	})
}

func TestProducers(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	for _, step := range []struct {
		epoch, seq int
		status     int
		header     map[string]string
		tail       int
	}{
		{1, 1, 409, map[string]string{wire.ProducerExpectedSeq: "0", wire.ProducerReceivedSeq: "1"}, 0},
		{1, 0, 200, map[string]string{wire.ProducerEpoch: "1", wire.ProducerSeq: "0"}, 1},
		{1, 1, 200, map[string]string{wire.ProducerEpoch: "1", wire.ProducerSeq: "1"}, 2},
		{1, 2, 200, map[string]string{wire.ProducerEpoch: "1", wire.ProducerSeq: "2"}, 3},
		// The highest accepted sequence, not the one that was sent.
		{1, 1, 204, map[string]string{wire.ProducerEpoch: "1", wire.ProducerSeq: "2"}, 3},
		{1, 4, 409, map[string]string{wire.ProducerExpectedSeq: "3", wire.ProducerReceivedSeq: "4"}, 3},
		{0, 0, 403, map[string]string{wire.ProducerEpoch: "1"}, 3},
		{2, 1, 400, map[string]string{wire.ProducerEpoch: "1"}, 3},
		{2, 0, 200, map[string]string{wire.ProducerEpoch: "2", wire.ProducerSeq: "0"}, 4},
		{1, 3, 403, map[string]string{wire.ProducerEpoch: "2"}, 4},
	} {
		got := s.do(http.MethodPost, "/v1/stream/a", "x", "Content-Type", typeText, wire.ProducerID, "p",
			wire.ProducerEpoch, strconv.Itoa(step.epoch), wire.ProducerSeq, strconv.Itoa(step.seq))
		require.Equal(t, step.status, got.status, "epoch %d seq %d: %s", step.epoch, step.seq, got.body)
		for name, value := range step.header {
			assert.Equal(t, value, got.header.Get(name), "epoch %d seq %d: %s", step.epoch, step.seq, name)
		}
		if step.status < 300 {
			assert.Equal(t, token(step.tail), got.header.Get(wire.StreamNextOffset), "also on duplicates")
		}
		head := s.do(http.MethodHead, "/v1/stream/a", "")
		assert.Equal(t, token(step.tail), head.header.Get(wire.StreamNextOffset))
	}
	t.Run("a duplicate is found before Stream-Seq is looked at", func(t *testing.T) {
		headers := []string{"Content-Type", typeText, wire.ProducerID, "q", wire.ProducerEpoch, "0", wire.ProducerSeq, "0", wire.StreamSeq, "5"}
		assert.Equal(t, 200, s.do(http.MethodPost, "/v1/stream/a", "x", headers...).status)
		assert.Equal(t, 204, s.do(http.MethodPost, "/v1/stream/a", "x", headers...).status)
	})
}

func TestAClosedStream(t *testing.T) {
	closing := []string{"Content-Type", typeText, wire.StreamClosed, "true", wire.ProducerID, "p", wire.ProducerEpoch, "0", wire.ProducerSeq, "0"}
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	first := s.do(http.MethodPost, "/v1/stream/a", "last words", closing...)
	assert.Equal(t, 200, first.status)
	assert.Equal(t, "true", first.header.Get(wire.StreamClosed))
	for _, row := range []struct {
		name    string
		headers []string
		body    string
		status  int
	}{
		{"append", []string{"Content-Type", typeText}, "x", 409},
		{"append of another type", []string{"Content-Type", "text/html"}, "x", 409},
		{"append and close", []string{"Content-Type", typeText, wire.StreamClosed, "true"}, "x", 409},
		{"close again", []string{wire.StreamClosed, "true"}, "", 204},
		{"the closing request again", closing, "last words", 204},
		{"the closing request with another body", closing, "other words", 204},
		{"another sequence", []string{"Content-Type", typeText, wire.StreamClosed, "true", wire.ProducerID, "p", wire.ProducerEpoch, "0", wire.ProducerSeq, "1"}, "x", 409},
		{"another producer", []string{"Content-Type", typeText, wire.StreamClosed, "true", wire.ProducerID, "q", wire.ProducerEpoch, "0", wire.ProducerSeq, "0"}, "x", 409},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := s.do(http.MethodPost, "/v1/stream/a", row.body, row.headers...)
			assert.Equal(t, row.status, got.status)
			assert.Equal(t, "true", got.header.Get(wire.StreamClosed))
			assert.Equal(t, token(1), got.header.Get(wire.StreamNextOffset))
			assert.Equal(t, "last words", s.do(http.MethodGet, "/v1/stream/a", "").body)
		})
	}
}

func TestAProducerThatOnlyCloses(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "")
	for range 2 {
		got := s.do(http.MethodPost, "/v1/stream/a", "", wire.StreamClosed, "true",
			wire.ProducerID, "p", wire.ProducerEpoch, "3", wire.ProducerSeq, "0")
		assert.Equal(t, 204, got.status)
		assert.Equal(t, "3", got.header.Get(wire.ProducerEpoch))
		assert.Equal(t, "0", got.header.Get(wire.ProducerSeq))
		assert.Equal(t, "true", got.header.Get(wire.StreamClosed))
	}
}

func TestDurableDelete(t *testing.T) {
	s := newService(t)
	assert.Equal(t, 404, s.do(http.MethodDelete, "/v1/stream/a", "").status)
	s.must(http.MethodPut, "/v1/stream/a", "old", "Content-Type", typeText)
	assert.Equal(t, 204, s.do(http.MethodDelete, "/v1/stream/a", "").status)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
		assert.Equal(t, 404, s.do(method, "/v1/stream/a", "", wire.StreamClosed, "true").status, method)
	}
	assert.Equal(t, 201, s.do(http.MethodPut, "/v1/stream/a", "new", "Content-Type", typeJSON+"x").status)
	assert.Equal(t, "new", s.do(http.MethodGet, "/v1/stream/a", "").body)
}

func TestDurableExpiry(t *testing.T) {
	for _, row := range []struct {
		name    string
		headers []string
		touch   func(*service)
		status  int // after 9 and again 9 of 10 seconds, touched in between
	}{
		{"a read renews", []string{wire.StreamTTL, "10"}, func(s *service) { s.must(http.MethodGet, "/v1/stream/a", "") }, 200},
		{"a read at the tail renews", []string{wire.StreamTTL, "10"}, func(s *service) { s.must(http.MethodGet, "/v1/stream/a?offset=now", "") }, 200},
		{"an event stream renews", []string{wire.StreamTTL, "10", wire.StreamClosed, "true"}, func(s *service) {
			s.must(http.MethodGet, "/v1/stream/a?offset=now&live=sse", "")
		}, 200},
		{"an append renews", []string{wire.StreamTTL, "10"}, func(s *service) {
			s.must(http.MethodPost, "/v1/stream/a", "x", "Content-Type", stream.DefaultContentType)
		}, 200},
		{"HEAD does not", []string{wire.StreamTTL, "10"}, func(s *service) { s.must(http.MethodHead, "/v1/stream/a", "") }, 404},
		{"nothing renews a deadline", []string{wire.StreamExpiresAt, "2023-11-14T22:13:30Z"}, func(s *service) { s.must(http.MethodGet, "/v1/stream/a", "") }, 404},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t)
			s.must(http.MethodPut, "/v1/stream/a", "", row.headers...)
			s.streams.Advance(9 * time.Second)
			row.touch(s)
			s.streams.Advance(9 * time.Second)
			assert.Equal(t, row.status, s.do(http.MethodHead, "/v1/stream/a", "").status)
		})
	}
	t.Run("at once", func(t *testing.T) {
		for _, headers := range [][]string{{wire.StreamTTL, "0"}, {wire.StreamExpiresAt, "2001-01-01T00:00:00Z"}} {
			s := newService(t)
			assert.Equal(t, 201, s.do(http.MethodPut, "/v1/stream/a", "", headers...).status)
			assert.Equal(t, 404, s.do(http.MethodGet, "/v1/stream/a", "").status)
			assert.Equal(t, 201, s.do(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText).status)
		}
	})
}
