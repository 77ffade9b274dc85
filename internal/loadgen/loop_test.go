package loadgen

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLoop counts at the server what a loop says it sent.
func TestLoop(t *testing.T) {
	var mu sync.Mutex
	got := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path]++
	}))
	defer server.Close()
	report, err := Loop{
		Endpoint: server.URL, Connections: 3, Duration: 200 * time.Millisecond,
		Request: func(dst []byte, n int64) []byte {
			return append(strconv.AppendInt(append(dst, "GET /"...), n, 10), " HTTP/1.1\r\nHost: x\r\n\r\n"...)
		},
	}.Run(t.Context())
	require.NoError(t, err)
	assert.Len(t, got, int(report.Answered))
	assert.Equal(t, 1, got["/0"])
	assert.Positive(t, report.PerSecond)
	assert.Positive(t, report.Latency.P99)
}

// TestLoopHead gets answers whose length is that of a body which does not come.
func TestLoopHead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "5") }))
	defer server.Close()
	report, err := Loop{
		Endpoint: server.URL, Connections: 1, Duration: 200 * time.Millisecond,
		Request: func(dst []byte, _ int64) []byte { return append(dst, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"...) },
	}.Run(t.Context())
	require.NoError(t, err)
	assert.Positive(t, report.Answered)
}

func TestLoopFails(t *testing.T) {
	for what, handler := range map[string]http.HandlerFunc{
		"a refusal":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) },
		"no answer":         func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"an end of sending": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") },
	} {
		t.Run(what, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			_, err := Loop{
				Endpoint: server.URL, Connections: 2, Duration: time.Minute,
				Request: func(dst []byte, _ int64) []byte { return append(dst, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"...) },
			}.Run(t.Context())
			require.Error(t, err)
		})
	}
}
