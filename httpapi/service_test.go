package httpapi

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/memstreams"
)

// service is an API over streams in memory behind a real listener, and a client
// of it.
type service struct {
	t       *testing.T
	streams *memstreams.Streams
	api     *API
	server  *httptest.Server
	client  *http.Client
	log     *logBuffer
}

// What a test waits for comes at once or not at all: this is how long it looks.
const (
	readyTimeout = time.Minute
	readyTick    = time.Millisecond
)

// testCursor is the cursor of the time at which every service's clock stands.
const testCursor = "1000"

// newService starts a service; change may alter its configuration.
func newService(t *testing.T, change ...func(*Config)) *service {
	t.Helper()
	s := &service{t: t, streams: memstreams.New(), log: new(logBuffer)}
	config := Config{
		Streams: s.streams,
		Logger:  slog.New(slog.NewTextHandler(s.log, nil)),
		Clock: func() time.Time {
			return time.Date(2024, time.October, 9, 0, 0, 0, 0, time.UTC).Add(1000 * 20 * time.Second)
		},
	}
	for _, f := range change {
		f(&config)
	}
	var err error
	s.api, err = New(config)
	require.NoError(t, err)
	server := httptest.NewServer(s.api.Handler())
	s.server, s.client = server, server.Client()
	t.Cleanup(func() {
		s.api.Drain()
		server.Client().CloseIdleConnections()
		server.Close()
	})
	return s
}

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request and reads its whole answer. headers alternate between
// names and values; a body without a Content-Type among them has none.
func (s *service) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	got, err := s.try(method, path, body, headers...)
	require.NoError(s.t, err)
	return got
}

// try is do for goroutines that may not end the test.
func (s *service) try(method, path, body string, headers ...string) (answer, error) {
	request, err := s.request(context.Background(), method, path, body, headers...)
	if err != nil {
		return answer{}, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(read)}, err
}

func (s *service) request(ctx context.Context, method, path, body string, headers ...string) (*http.Request, error) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.server.URL+path, reader)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	return request, nil
}

// opened is a response whose body is still to be read.
type opened struct {
	status     int
	protoMajor int
	Body       io.ReadCloser
}

// open sends a GET and leaves the body of the answer to be read; the test's end
// closes it.
func (s *service) open(ctx context.Context, path string) opened {
	s.t.Helper()
	request, err := s.request(ctx, http.MethodGet, path, "")
	require.NoError(s.t, err)
	response, err := s.client.Do(request)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = response.Body.Close() })
	return opened{response.StatusCode, response.ProtoMajor, response.Body}
}

// must is do for what a test only sets up: any refusal fails it.
func (s *service) must(method, path, body string, headers ...string) answer {
	s.t.Helper()
	got := s.do(method, path, body, headers...)
	require.Less(s.t, got.status, 300, "%s %s: %s", method, path, got.body)
	return got
}

// later sends a GET from another goroutine. The channel gives its answer, or one
// without a status when there is none.
func (s *service) later(path string) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		got, err := s.try(http.MethodGet, path, "")
		if err != nil {
			got = answer{body: err.Error()}
		}
		answers <- got
	}()
	return answers
}

// awaitWaiting returns when as many readers wait for something new.
func (s *service) awaitWaiting(readers int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.streams.Waiting() == readers }, readyTimeout, readyTick)
}

// logBuffer keeps what a service logs.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
