package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

func TestEveryResponseIsFitForBrowsers(t *testing.T) {
	s := abc(t, typeText, true)
	for _, row := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/v1/stream/a", 200},
		{http.MethodHead, "/v1/stream/a", 200},
		{http.MethodGet, "/v1/stream/a?live=sse&offset=-1", 200},
		{http.MethodGet, "/v1/stream/a?live=long-poll&offset=now", 204},
		{http.MethodGet, "/v1/stream/none", 404},
		{http.MethodGet, "/v1/stream/a?offset=", 400},
		{http.MethodPut, "/v1/stream/b", 201},
		{http.MethodPost, "/v1/stream/b", 400},
		{http.MethodPatch, "/v1/stream/a", 405},
		{http.MethodGet, "/v1/stream/", 400},
		{http.MethodGet, "/v1/stream/__ds/jwks.json", 404},
		{http.MethodGet, "/none", 404},
	} {
		got := s.do(row.method, row.path, "")
		assert.Equal(t, row.status, got.status, row.path)
		assert.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"), row.path)
		assert.Equal(t, "cross-origin", got.header.Get("Cross-Origin-Resource-Policy"), row.path)
		assert.NotEmpty(t, got.header.Get(headerRequestID), row.path)
		if row.method == http.MethodPost {
			assert.Empty(t, got.header.Values("Access-Control-Expose-Headers"), "it is not a browser that asks")
			got = s.do(row.method, row.path, "", "Origin", "https://example.com")
		}
		assert.Equal(t, "*", got.header.Get("Access-Control-Allow-Origin"), row.path)
		exposed := got.header.Get("Access-Control-Expose-Headers")
		for _, name := range []string{wire.StreamNextOffset, wire.StreamSSEDataEncoding, wire.PicoNextSeq, "ETag", "Location"} {
			assert.Contains(t, exposed, name, row.path)
		}
	}
}

func TestPreflights(t *testing.T) {
	s := newService(t, func(c *Config) { c.CORSOrigin = "https://example.com" })
	for _, path := range []string{"/v1/stream/a", "/v1/stream/__ds/x", "/a", "/"} {
		got := s.do(http.MethodOptions, path, "", "Origin", "https://example.com",
			"Access-Control-Request-Method", "PUT", "Access-Control-Request-Headers", "if-none-match")
		assert.Equal(t, 204, got.status)
		assert.Equal(t, "https://example.com", got.header.Get("Access-Control-Allow-Origin"))
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"} {
			assert.Contains(t, got.header.Get("Access-Control-Allow-Methods"), method)
		}
		for _, name := range []string{
			"Content-Type", "Authorization", "If-None-Match", wire.StreamSeq, wire.StreamTTL, wire.StreamExpiresAt,
			wire.StreamClosed, wire.StreamForkedFrom, wire.ProducerID, wire.ProducerEpoch, wire.ProducerSeq, wire.PicoMatchSeq,
		} {
			assert.Contains(t, got.header.Get("Access-Control-Allow-Headers"), name)
		}
	}
}

func TestMethodsThatAreNotAllowed(t *testing.T) {
	got := newService(t).do(http.MethodPatch, "/v1/stream/a", "")
	assert.Equal(t, 405, got.status)
	assert.Equal(t, "GET, HEAD, PUT, POST, DELETE, OPTIONS", got.header.Get("Allow"))
	assertDurableError(t, got)
}

func TestNamesAreKeptByteForByte(t *testing.T) {
	for _, row := range []struct {
		name, path string
		status     int
		stream     stream.Name
	}{
		{"segments", "/v1/stream/a/b/c", 201, "a/b/c"},
		{"escapes", "/v1/stream/a%20b%C3%A9", 201, "a bé"},
		{"escaped slash", "/v1/stream/a%2Fb", 201, "a/b"},
		{"escaped line break", "/v1/stream/a%0Ab", 201, "a\nb"},
		{"escaped percent, once", "/v1/stream/a%2541", 201, "a%41"},
		{"longest", "/v1/stream/" + strings.Repeat("n", stream.MaxNameBytes), 201, stream.Name(strings.Repeat("n", stream.MaxNameBytes))},
		{"too long", "/v1/stream/" + strings.Repeat("n", stream.MaxNameBytes+1), 400, ""},
		{"none", "/v1/stream/", 400, ""},
		{"doubled slash", "/v1/stream/a//b", 400, ""},
		{"trailing slash", "/v1/stream/a/", 400, ""},
		{"dot", "/v1/stream/a/./b", 400, ""},
		{"dots", "/v1/stream/a/../b", 400, ""},
		{"escaped dots", "/v1/stream/a/%2e%2e/b", 400, ""},
		{"NUL", "/v1/stream/a%00", 400, ""},
		{"not UTF-8", "/v1/stream/a%FF", 400, ""},
		{"reserved", "/v1/stream/__ds/x", 404, ""},
		{"reserved alone", "/v1/stream/__ds", 404, ""},
		{"reserved further down", "/v1/stream/a/__ds", 201, "a/__ds"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t)
			got := s.do(http.MethodPut, row.path, "")
			assert.Equal(t, row.status, got.status, got.body)
			if row.status == 201 {
				_, err := s.streams.Head(context.Background(), row.stream)
				assert.NoError(t, err)
				return
			}
			assertDurableError(t, got)
		})
	}
}

func TestRequestIDs(t *testing.T) {
	s := newService(t)
	first := s.do(http.MethodGet, "/v1/stream/a", "").header.Get(headerRequestID)
	second := s.do(http.MethodGet, "/v1/stream/a", "").header.Get(headerRequestID)
	assert.NotEqual(t, first, second)
	for given, kept := range map[string]bool{"abc-DEF_1.2": true, "with space": false, strings.Repeat("x", 65): false} {
		got := s.do(http.MethodGet, "/v1/stream/a", "", headerRequestID, given).header.Get(headerRequestID)
		assert.Equal(t, kept, got == given, given)
	}
}

func TestInternalErrorsAreLoggedAndNotShown(t *testing.T) {
	for _, path := range []string{"/v1/stream/a", "/a"} {
		s := newService(t)
		s.streams.FailWith(errors.New("the disk of node 7 is on fire"))
		got := s.do(http.MethodGet, path, "")
		assert.Equal(t, 500, got.status)
		assert.NotContains(t, got.body, "fire")
		id := got.header.Get(headerRequestID)
		assert.Contains(t, got.body, id)
		assert.Contains(t, s.log.String(), id)
		assert.Contains(t, s.log.String(), "fire")
	}
}

func TestRefusalsOnTheWire(t *testing.T) {
	for code := stream.CodeInternal; code <= stream.CodeUnsupported; code++ {
		known, ok := refusals[code]
		require.True(t, ok, "%s has no status", code)
		t.Run(code.String(), func(t *testing.T) {
			s := newService(t)
			s.streams.FailWith(&stream.Error{Code: code, Message: "why", RetryAfter: 1500 * time.Millisecond, Tail: 7})
			got := s.do(http.MethodPost, "/v1/stream/a", "x", "Content-Type", typeText)
			assert.Equal(t, known.status, got.status)
			assert.Contains(t, got.body, `"code":"`+known.name+`"`)
			assertDurableError(t, got)
			if known.status == http.StatusServiceUnavailable {
				assert.Equal(t, "2", got.header.Get("Retry-After"), "whole seconds, rounded up")
				what := map[bool]string{true: wire.WrittenUnknown, false: wire.WrittenNo}[code == stream.CodeOutcomeUnknown]
				assert.Contains(t, got.body, `"written":"`+what+`"`)
			} else {
				assert.NotContains(t, got.body, "written")
			}
		})
	}
	assert.Equal(t, "1", retryAfter(0))
}

// panics breaks what it wraps.
type panics struct{ Streams }

func (panics) Head(context.Context, stream.Name) (stream.Info, error) { panic("a broken invariant") }

func (panics) Delete(context.Context, stream.Name) error { panic("a broken invariant") }

func TestPanicsBecomeAnswers(t *testing.T) {
	s := newService(t, func(c *Config) { c.Streams = panics{c.Streams} })
	for _, path := range []string{"/v1/stream/a", "/a"} {
		got := s.do(http.MethodDelete, path, "")
		assert.Equal(t, 500, got.status)
		assert.Contains(t, got.body, got.header.Get(headerRequestID))
	}
	assert.Contains(t, s.log.String(), "a broken invariant")
}

// panicsLater answers reads and breaks where a reader waits.
type panicsLater struct{ Streams }

func (panicsLater) Wait(context.Context, stream.WaitRequest) (stream.Info, error) {
	panic("a broken invariant")
}

func TestAPanicWithinAResponseBreaksItOff(t *testing.T) {
	s := abc(t, typeText, false)
	s.api.config.Streams = panicsLater{s.streams}
	response := s.open(t.Context(), "/v1/stream/a?live=sse&offset=now")
	assert.Equal(t, 200, response.status)
	_, err := io.ReadAll(response.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "nobody takes it for whole")
}

// neverDone carries requests out until their clients leave.
type neverDone struct {
	Streams
	begun chan struct{}
}

func (n neverDone) Append(ctx context.Context, _ stream.Name, _ *stream.AppendRequest) (stream.Appended, error) {
	n.begun <- struct{}{}
	<-ctx.Done()
	return stream.Appended{}, ctx.Err()
}

func TestAClientThatLeavesIsNoFailure(t *testing.T) {
	begun := make(chan struct{})
	s := newService(t, func(c *Config) { c.Streams = neverDone{c.Streams, begun} })
	ctx, cancel := context.WithCancel(t.Context())
	request, err := s.request(ctx, http.MethodPost, "/v1/stream/a", "x", "Content-Type", typeText)
	require.NoError(t, err)
	left := make(chan error, 1)
	go func() {
		response, err := s.client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		left <- err
	}()
	<-begun
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	m := s.api.config.Metrics
	require.Eventually(t, func() bool {
		return testCount(m.requests.WithLabelValues("durable", "POST", "499")) == 1
	}, readyTimeout, readyTick)
	assert.Zero(t, testCount(m.refusals.WithLabelValues("internal")))
	assert.Empty(t, s.log.String())
}

// overHTTP2 serves a service over cleartext HTTP/2 as well, and from now on asks
// it that way.
func overHTTP2(s *service) {
	s.t.Helper()
	server := httptest.NewUnstartedServer(s.api.Handler())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	s.t.Cleanup(server.Close)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	s.t.Cleanup(transport.CloseIdleConnections)
	s.server, s.client = server, &http.Client{Transport: transport}
}

func TestReadersMayWaitLongerThanAWriteMayTake(t *testing.T) {
	for _, version := range []int{1, 2} {
		s := newService(t, func(c *Config) {
			c.WriteTimeout = 400 * time.Millisecond
			c.LongPollTimeout, c.SSEMaxDuration = time.Second, time.Second
		})
		if version == 2 {
			overHTTP2(s)
		}
		s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
		assert.Equal(t, 204, s.must(http.MethodGet, "/v1/stream/a?live=long-poll&offset=now", "").status)
		events := s.events("offset=now")
		events.expect(controlEvent(0, isUpToDate))
		events.expectEnd()
		s.must(http.MethodGet, "/v1/stream/a", "")
	}
}

func TestCleartextHTTP2(t *testing.T) {
	s := newService(t)
	overHTTP2(s)
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	response := s.open(context.Background(), "/v1/stream/a?live=sse&offset=-1")
	assert.Equal(t, 2, response.protoMajor)
	events := &eventReader{t: t, body: response.Body}
	events.expect(controlEvent(0, isUpToDate))
	large := strings.Repeat("x", 1<<20)
	s.must(http.MethodPost, "/v1/stream/a", large, "Content-Type", typeText, wire.StreamClosed, "true")
	events.expect("event: data\ndata:" + large + "\n\n" + controlEvent(1, isClosed))
	events.expectEnd()
	got := s.do(http.MethodPost, "/v1/stream/a", strings.Repeat("y", 9<<20), "Content-Type", typeText)
	assert.Equal(t, 413, got.status)
}

func TestAClientThatTakesNothingIsCut(t *testing.T) {
	for _, row := range []struct{ name, query string }{
		{"event stream", "?live=sse&offset=-1"},
		{"catch-up", "?offset=-1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newService(t, func(c *Config) {
				c.WriteTimeout = 20 * time.Millisecond
				c.MaxBody = 16 << 20
			})
			// More than the buffers of both ends of a connection can take.
			s.must(http.MethodPut, "/v1/stream/a", strings.Repeat("x", 16<<20), "Content-Type", typeText)
			conn := dial(t, s)
			require.NoError(t, conn.SetReadBuffer(4096))
			_, err := fmt.Fprintf(conn, "GET /v1/stream/a%s HTTP/1.1\r\nHost: x\r\n\r\n", row.query)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				requests := testCount(s.api.config.Metrics.requests.WithLabelValues("durable", "GET", "200"))
				return requests == 1
			}, readyTimeout, readyTick, "the handler has returned")
			assert.Empty(t, s.log.String(), "a slow client is no error")
		})
	}
}

func TestConfigIsValidated(t *testing.T) {
	valid := Config{Streams: panics{}}
	require.NoError(t, valid.Validate())
	for name, spoil := range map[string]func(*Config){
		"Streams":         func(c *Config) { c.Streams = nil },
		"MaxBody":         func(c *Config) { c.MaxBody = -1 },
		"BodyBudget":      func(c *Config) { c.BodyBudget = 1 },
		"MaxSubscribers":  func(c *Config) { c.MaxSubscribers = -1 },
		"EventCacheBytes": func(c *Config) { c.EventCacheBytes = -1 },
		"LongPollTimeout": func(c *Config) { c.LongPollTimeout = -1 },
		"SSEMaxDuration":  func(c *Config) { c.SSEMaxDuration = -1 },
		"Keepalive":       func(c *Config) { c.Keepalive = -1 },
		"WriteTimeout":    func(c *Config) { c.WriteTimeout = -1 },
		"BodyTimeout":     func(c *Config) { c.BodyTimeout = -1 },
	} {
		config := valid
		spoil(&config)
		_, err := New(config)
		assert.ErrorContains(t, err, name)
	}
}

func TestContentLengthIsSentWithBodies(t *testing.T) {
	got := abc(t, typeJSON, false).do(http.MethodGet, "/v1/stream/a", "")
	assert.Equal(t, strconv.Itoa(len(got.body)), got.header.Get("Content-Length"))
}
