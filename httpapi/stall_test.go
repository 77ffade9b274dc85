package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/memstreams"
)

// stalledRequests announce a body that never comes, or comes in part.
var stalledRequests = []struct {
	name, text string
	status     int
}{
	{"GET", "GET /a HTTP/1.1\r\nContent-Length: 100\r\n\r\n", 200},
	{"GET of nothing", "GET /none HTTP/1.1\r\nContent-Length: 100\r\n\r\n", 404},
	{"GET, chunked", "GET /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 200},
	{"GET, part", "GET /v1/stream/a HTTP/1.1\r\nContent-Length: 100\r\n\r\nabc", 200},
	{"GET, too much to wait for", "GET /a HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 200},
	{"GET, on request", "GET /a HTTP/1.1\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", 200},
	{"HEAD", "HEAD /a HTTP/1.1\r\nContent-Length: 100\r\n\r\n", 200},
	{"DELETE", "DELETE /b HTTP/1.1\r\nContent-Length: 100\r\n\r\n", 204},
	{"PATCH", "PATCH /a HTTP/1.1\r\nContent-Length: 100\r\n\r\n", 405},
	{"OPTIONS", "OPTIONS /a HTTP/1.1\r\nContent-Length: 100\r\n\r\n", 204},
	{"POST with a bad header", "POST /a HTTP/1.1\r\nPico-Match-Seq: x\r\nContent-Length: 100\r\n\r\n", 400},
	{"PUT with a bad header", "PUT /v1/stream/b HTTP/1.1\r\nStream-TTL: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", 400},
	{"POST that is too large", "POST /a HTTP/1.1\r\nContent-Length: 99999999\r\n\r\nabc", 413},
	{"a trim with a body", "POST /a HTTP/1.1\r\nPico-Trim-Seq: 0\r\nContent-Length: 100\r\n\r\n", 400},
	{"a trim that says too little", "POST /a HTTP/1.1\r\nPico-Trim-Seq: 0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
	{"an append that stops", "POST /a HTTP/1.1\r\nContent-Length: 100\r\n\r\nabc", 400},
}

func TestAnswersDoNotWaitForBodiesThatNeverCome(t *testing.T) {
	s := newService(t, func(c *Config) { c.BodyTimeout = drainTimeout })
	s.must(http.MethodPut, "/a", "x")
	s.must(http.MethodPut, "/b", "x")
	var answers []*bufio.Reader // of all at once: each takes its time
	for _, row := range stalledRequests {
		conn := dial(t, s)
		_, err := io.WriteString(conn, strings.Replace(row.text, "\r\n", "\r\nHost: x\r\n", 1))
		require.NoError(t, err)
		answers = append(answers, bufio.NewReader(conn))
	}
	for i, row := range stalledRequests {
		t.Run(row.name, func(t *testing.T) {
			method, _, _ := strings.Cut(row.text, " ")
			response, err := http.ReadResponse(answers[i], &http.Request{Method: method})
			require.NoError(t, err)
			defer response.Body.Close()
			assert.Equal(t, row.status, response.StatusCode)
			assert.True(t, response.Close, "what comes next could not be told from the body")
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			_, err = answers[i].ReadByte()
			assert.Error(t, err, "the server lets go of the connection")
		})
	}
}

func TestAPanicDoesNotWaitForABodyThatNeverComes(t *testing.T) {
	s := newService(t, func(c *Config) { c.Streams = panicsLater{c.Streams} })
	s.must(http.MethodPut, "/a", "")
	conn := dial(t, s)
	_, err := io.WriteString(conn, "GET /a?live=sse HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
	require.NoError(t, err)
	_, err = io.ReadAll(conn)
	require.NoError(t, err, "broken off, and closed")
}

func TestAdminPagesDoNotWaitForBodiesThatNeverCome(t *testing.T) {
	handler, err := AdminHandler(AdminConfig{
		Ready:    func(context.Context) error { return nil },
		Inspect:  memstreams.New().Inspect,
		Cluster:  noCluster,
		Gatherer: prometheus.NewRegistry(),
		Pprof:    true,
	})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	rows := []struct {
		request string
		status  int
	}{
		{"GET /health", 200},
		{"GET /metrics", 200},
		{"GET /streams/none", 404},
		{"POST /ready", 405},
		{"POST /debug/pprof/symbol", 200},
	}
	var answers []*bufio.Reader
	for _, row := range rows {
		conn := dial(t, &service{server: server})
		_, err := io.WriteString(conn, row.request+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
		require.NoError(t, err)
		answers = append(answers, bufio.NewReader(conn))
	}
	for i, row := range rows {
		t.Run(row.request, func(t *testing.T) {
			response, err := http.ReadResponse(answers[i], nil)
			require.NoError(t, err)
			defer response.Body.Close()
			assert.Equal(t, row.status, response.StatusCode)
		})
	}
}

func TestAStalledBodyOverHTTP2IsAnswered(t *testing.T) {
	s := newService(t, func(c *Config) { c.BodyTimeout = 50 * time.Millisecond })
	overHTTP2(s)
	s.must(http.MethodPut, "/a", "")
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		body, stalled := io.Pipe()
		go func() { _, _ = io.WriteString(stalled, "abc") }()
		request, err := http.NewRequestWithContext(t.Context(), method, s.server.URL+"/a", body)
		require.NoError(t, err)
		request.ContentLength = 100
		response, err := s.client.Do(request)
		require.NoError(t, err)
		assert.Equal(t, map[string]int{http.MethodPost: 400, http.MethodGet: 200}[method], response.StatusCode)
		_ = stalled.Close()
		_ = response.Body.Close()
	}
}

// TestConnectionsAreUsedAgain sends one request after the other over one
// connection, with bodies that handlers read, do not read and never see.
func TestConnectionsAreUsedAgain(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/a", "0")
	requests := []struct {
		text   string
		status int
	}{
		{"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", 200},
		{"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 200},
		{"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200},
		{"GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 200},
		{"GET /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200},
		{"POST /a HTTP/1.1\r\nHost: x\r\nPico-Match-Seq: x\r\nContent-Length: 3\r\n\r\nabc", 400},
		{"POST /a HTTP/1.1\r\nHost: x\r\nPico-Trim-Seq: 0\r\nContent-Length: 3\r\n\r\nabc", 400},
		{"POST /a HTTP/1.1\r\nHost: x\r\nPico-Trim-Seq: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200},
		{"DELETE /none HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 404},
		{"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", 200},
	}
	check := func(t *testing.T, answers *bufio.Reader, row int) {
		response, err := http.ReadResponse(answers, nil)
		require.NoError(t, err, requests[row].text)
		defer response.Body.Close()
		assert.Equal(t, requests[row].status, response.StatusCode, requests[row].text)
		assert.False(t, response.Close, requests[row].text)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
	}
	t.Run("in turn", func(t *testing.T) {
		conn := dial(t, s)
		answers := bufio.NewReader(conn)
		for i := range requests {
			_, err := io.WriteString(conn, requests[i].text)
			require.NoError(t, err)
			check(t, answers, i)
		}
	})
	t.Run("pipelined", func(t *testing.T) {
		conn := dial(t, s)
		for i := range requests {
			_, err := io.WriteString(conn, requests[i].text)
			require.NoError(t, err)
		}
		answers := bufio.NewReader(conn)
		for i := range requests {
			check(t, answers, i)
		}
	})
}

// A connection may rest for longer than an answer may take to be written: the
// deadline of the last one, which net/http takes back, cuts neither the next nor an
// invitation to send a body.
func TestAConnectionRestsLongerThanAnAnswerMayTake(t *testing.T) {
	const timeout = 500 * time.Millisecond
	s := newService(t, func(c *Config) { c.WriteTimeout = timeout })
	s.must(http.MethodPut, "/a", "")
	conn := dial(t, s)
	answers := bufio.NewReader(conn)
	for i, text := range []string{
		"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
	} {
		if i > 0 {
			time.Sleep(timeout + timeout/4)
		}
		head, body, _ := strings.Cut(text, "\r\n\r\n")
		_, err := io.WriteString(conn, head+"\r\n\r\n"+body)
		require.NoError(t, err)
		if body == "" {
			line, err := answers.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
			_, err = answers.ReadString('\n')
			require.NoError(t, err)
			_, err = io.WriteString(conn, "abc")
			require.NoError(t, err)
		}
		response, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		require.Equal(t, 200, response.StatusCode)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
}

// A reader that announced a body with its GET is not cut when the time for that
// body is over.
func TestLiveReadersOutlastTheTimeForTheirBodies(t *testing.T) {
	s := newService(t, func(c *Config) {
		c.BodyTimeout = drainTimeout / 4
		c.SSEMaxDuration = drainTimeout + drainTimeout/4
	})
	s.must(http.MethodPut, "/a", "")
	bodies := []string{
		"Content-Length: 3\r\n\r\nabc",
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"Content-Length: 3\r\n\r\nab",
	}
	var answers []*bufio.Reader
	for _, body := range bodies {
		conn := dial(t, s)
		_, err := fmt.Fprintf(conn, "GET /a?live=sse HTTP/1.1\r\nHost: x\r\n%s", body)
		require.NoError(t, err)
		answers = append(answers, bufio.NewReader(conn))
	}
	for i, body := range bodies {
		response, err := http.ReadResponse(answers[i], nil)
		require.NoError(t, err, body)
		assert.Equal(t, 200, response.StatusCode)
		_, err = io.ReadAll(response.Body)
		require.NoError(t, err, "it ends by itself, whole")
		_ = response.Body.Close()
	}
	assert.EqualValues(t, len(bodies), testCount(s.api.config.Metrics.requests.WithLabelValues("pico", "GET", "200")))
}

func TestALiveReaderThatSentABodyIsMissedWhenItLeaves(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/a", "")
	conn := dial(t, s)
	_, err := io.WriteString(conn, "GET /a?live=sse HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
	require.NoError(t, err)
	s.awaitWaiting(1)
	require.NoError(t, conn.Close())
	s.awaitWaiting(0)
}
