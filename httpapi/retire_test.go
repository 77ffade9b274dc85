package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestARetiredServerGivesItsConnectionsUp: whatever the answer, and also when the
// request was under way. HTTP/2 has no such header; its connections end otherwise.
func TestARetiredServerGivesItsConnectionsUp(t *testing.T) {
	s := abc(t, typeText, false)
	s.must(http.MethodPut, "/v1/stream/b", "")
	requests := []struct{ method, path, body string }{
		{http.MethodGet, "/v1/stream/a", ""},
		{http.MethodGet, "/v1/stream/none", ""},
		{http.MethodPost, "/a", "more"},
		{http.MethodOptions, "/a", ""},
	}
	connection := func(major int, method, path, body string) string {
		request := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		request.ProtoMajor = major
		request.Header.Set("Content-Type", typeText)
		answer := httptest.NewRecorder()
		s.api.Handler().ServeHTTP(answer, request)
		return answer.Header().Get("Connection")
	}
	for _, row := range requests {
		assert.Empty(t, connection(1, row.method, row.path, row.body), row.path)
	}
	underWay := make(chan string, 1)
	go func() { underWay <- connection(1, http.MethodGet, "/v1/stream/b?live=long-poll&offset=now", "") }()
	require.Eventually(t, func() bool { return s.api.subscribers.Load() == 1 }, time.Minute, time.Millisecond)
	s.api.Retire()
	for _, row := range requests {
		assert.Equal(t, "close", connection(1, row.method, row.path, row.body), row.path)
		assert.Empty(t, connection(2, row.method, row.path, row.body), row.path)
	}
	s.api.Drain()
	assert.Equal(t, "close", <-underWay)
}
