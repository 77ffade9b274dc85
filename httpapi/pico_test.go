package httpapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/internal/picosuite"
	"github.com/picomq/picomq/stream"
)

// TestPico runs the wire suite. What follows it here are the rows that no suite
// can test from outside: those that need a failure or another configuration.
func TestPico(t *testing.T) {
	t.Parallel() // it waits for the longest of its live reads
	s := newService(t, shortLiveReads)
	picosuite.Run(t, s.server.URL, picosuite.Advance(s.streams.Advance))
}

func TestPicoOverCleartextHTTP2(t *testing.T) {
	t.Parallel()
	s := newService(t, shortLiveReads)
	server := httptest.NewUnstartedServer(s.api.Handler())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{Protocols: new(http.Protocols), ExpectContinueTimeout: 10 * time.Second}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	picosuite.Run(t, server.URL, picosuite.Advance(s.streams.Advance), picosuite.Transport(transport))
}

// shortLiveReads are as short as leaves a busy machine the time to do what they
// wait for.
func shortLiveReads(c *Config) {
	c.LongPollTimeout = 10 * time.Second
	c.SSEMaxDuration = 15 * time.Second
}

// picoError is the body of a refusal.
func picoError(t *testing.T, got answer) wire.ErrorBody {
	t.Helper()
	assert.Equal(t, wire.TypeJSON, got.header.Get("Content-Type"))
	assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
	var body wire.ErrorBody
	require.NoError(t, json.Unmarshal([]byte(got.body), &body), got.body)
	return body
}

func TestPicoErrorsOfTheService(t *testing.T) {
	for _, c := range []struct {
		err     *stream.Error
		status  int
		code    string
		retry   string
		written string
	}{
		{stream.Errorf(stream.CodeTooLarge, "the record is too large"), 413, "too_large", "", ""},
		{stream.Errorf(stream.CodeOverloaded, "the backlog is full"), 503, "overloaded", "1", "no"},
		{&stream.Error{Code: stream.CodeUnavailable, Message: "the log is out of reach", RetryAfter: 2500 * time.Millisecond}, 503, "unavailable", "3", "no"},
		{stream.Errorf(stream.CodeOutcomeUnknown, "the outcome is unknown"), 503, "unavailable", "1", "unknown"},
		{stream.Errorf(stream.CodeUnsupported, "not in this release"), 501, "not_implemented", "", ""},
	} {
		s := newService(t)
		s.must(http.MethodPut, "/a", "")
		s.streams.FailWith(c.err)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			got := s.do(method, "/a", "body")
			body := picoError(t, got)
			assert.Equal(t, c.status, got.status, "%s %v", method, c.err.Code)
			assert.Equal(t, c.code, body.Error)
			assert.Equal(t, c.err.Message, body.Message)
			assert.Equal(t, c.retry, got.header.Get("Retry-After"))
			if method == http.MethodGet {
				assert.Empty(t, body.Written, "it writes nothing")
			} else {
				assert.Equal(t, c.written, body.Written)
			}
		}
		assert.Equal(t, c.status, s.do(http.MethodHead, "/a", "").status)
		assert.Equal(t, c.status, s.do(http.MethodGet, "/", "").status)
	}
}

func TestPicoInternalErrorsNameTheRequestThatTheLogKnows(t *testing.T) {
	s := newService(t)
	s.streams.FailWith(errors.New("checksum of segment 7 is wrong"))
	got := s.do(http.MethodGet, "/a", "")
	body := picoError(t, got)
	assert.Equal(t, 500, got.status)
	assert.Equal(t, "internal", body.Error)
	assert.NotContains(t, got.body, "checksum", "the cause is for the operator")
	require.NotEmpty(t, body.RequestID)
	assert.Contains(t, body.Message, body.RequestID)
	assert.Equal(t, body.RequestID, got.header.Get("X-Request-Id"))
	assert.Contains(t, s.log.String(), body.RequestID)
	assert.Contains(t, s.log.String(), "checksum of segment 7 is wrong")
}

func TestPicoInternalErrorsNameASpoiledObject(t *testing.T) {
	s := newService(t)
	s.streams.FailWith(stream.Errorf(stream.CodeInternal, "object wal/7.seg: checksum: block 3 does not match"))
	body := picoError(t, s.do(http.MethodGet, "/a", ""))
	assert.Contains(t, body.Message, "object wal/7.seg: checksum")
	assert.Contains(t, body.Message, body.RequestID)
	assert.Contains(t, s.do(http.MethodGet, "/v1/stream/a", "").body, "object wal/7.seg: checksum")
}

func TestPicoReadsOfAnOldViewSaySo(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/a", "x", "Pico-Closed", "true")
	s.api.config.Streams = staleStreams{s.streams}
	for _, query := range []string{"", "?live=long-poll"} {
		got := s.do(http.MethodGet, "/a"+query, "")
		assert.Equal(t, 200, got.status)
		assert.Equal(t, "1500", got.header.Get("Pico-Stale-Ms"))
		assert.Empty(t, got.header.Get("Pico-Up-To-Date"))
		assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
	}
}

func TestPicoBodiesAboveTheConfiguredLimit(t *testing.T) {
	s := newService(t, func(c *Config) { c.MaxBody = 10 })
	s.must(http.MethodPut, "/a", "0123456789")
	got := s.do(http.MethodPost, "/a", "0123456789x")
	assert.Equal(t, 413, got.status)
	assert.Contains(t, picoError(t, got).Message, "10 bytes")
	assert.Equal(t, 413, s.do(http.MethodPut, "/b", "0123456789x").status)
	assert.Equal(t, 404, s.do(http.MethodHead, "/b", "").status)
}

func TestPicoEventStreamsCarryACommentInSilence(t *testing.T) {
	s := newService(t, func(c *Config) { c.Keepalive = 5 * time.Millisecond })
	s.must(http.MethodPut, "/a", "")
	response := s.open(t.Context(), "/a?live=sse")
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for comments := 0; comments < 2; {
		require.True(t, lines.Scan(), "the stream ended")
		if strings.HasPrefix(lines.Text(), ":") {
			comments++
		}
	}
	s.must(http.MethodPost, "/a", "x")
	for lines.Text() != "id: 1" {
		require.True(t, lines.Scan(), "the stream ended")
	}
}

func TestPicoReadersAboveTheLimitAreRefused(t *testing.T) {
	s := newService(t, func(c *Config) { c.MaxSubscribers = 1 })
	s.must(http.MethodPut, "/a", "")
	response := s.open(t.Context(), "/a?live=sse")
	defer response.Body.Close()
	s.awaitWaiting(1)
	for _, live := range []string{"sse", "long-poll"} {
		got := s.do(http.MethodGet, "/a?live="+live, "")
		assert.Equal(t, 503, got.status)
		assert.Equal(t, "overloaded", picoError(t, got).Error)
		assert.NotEmpty(t, got.header.Get("Retry-After"))
	}
}

func TestPicoLiveReadersEndWhenTheServerDrains(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/a", "")
	poll := s.later("/a?live=long-poll")
	events := s.later("/a?live=sse")
	s.awaitWaiting(2)
	s.api.Drain()
	assert.Equal(t, 204, (<-poll).status)
	assert.Equal(t, "event: control\nid: 0\ndata:{\"next_seq\":0,\"up_to_date\":true}\n\n", (<-events).body)
}

func TestPicoReadersOfOnePlaceShareItsEvent(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/a", "x", "Pico-Closed", "true")
	want := s.must(http.MethodGet, "/a?live=sse", "").body
	for range 3 {
		assert.Equal(t, want, s.must(http.MethodGet, "/a?live=sse", "").body)
	}
	assert.Equal(t, "event: data\nid: 1\ndata:"+s.must(http.MethodGet, "/a", "").body+
		"\n\nevent: control\nid: 1\ndata:{\"next_seq\":1,\"up_to_date\":true,\"closed\":true}\n\n", want)
}

// The names under which a batch is announced never become a stream's type, also
// when a client sends parameters with them.
func TestPicoBatchTypesAreNotStreamTypes(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/a", `{"records":[{"body":"x"}]}`, "Content-Type", "Application/vnd.picomq.batch+JSON; charset=utf-8")
	assert.Equal(t, stream.DefaultContentType, s.must(http.MethodHead, "/a", "").header.Get("Content-Type"))
}

func TestPicoLargeReadsAreBoundedInRecords(t *testing.T) {
	s := newService(t)
	records := make([]stream.Record, maxReadRecords)
	s.must(http.MethodPut, "/a", string(wire.EncodeBinaryAppend(nil, records)), "Content-Type", wire.TypeBatch)
	s.must(http.MethodPost, "/a", "one more")
	got := s.must(http.MethodGet, "/a?format=binary&count=1000000", "")
	read, err := wire.DecodeBinaryRead([]byte(got.body))
	require.NoError(t, err)
	assert.Len(t, read, maxReadRecords)
	assert.Empty(t, got.header.Get("Pico-Up-To-Date"))
}
