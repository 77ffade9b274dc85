package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// lookAt asks the admin handler about a stream.
func lookAt(t *testing.T, inspect func(context.Context, stream.Name) (stream.Detail, error), path string) *httptest.ResponseRecorder {
	t.Helper()
	handler, err := AdminHandler(AdminConfig{
		Ready:    func(context.Context) error { return nil },
		Inspect:  inspect,
		Cluster:  noCluster,
		Gatherer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	assert.Equal(t, "application/json", recorder.Header().Get("Content-Type"))
	assert.Equal(t, "no-store", recorder.Header().Get("Cache-Control"))
	assert.Equal(t, "nosniff", recorder.Header().Get("X-Content-Type-Options"))
	return recorder
}

func TestAdminShowsAStreamAndItsForks(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/logs/a", "hello", "Content-Type", typeText, wire.PicoTTL, "60")
	s.must(http.MethodPut, "/v1/stream/fork", "", wire.StreamForkedFrom, "/v1/stream/logs/a", wire.StreamForkOffset, token(0),
		wire.StreamForkSubOffset, "3", wire.StreamExpiresAt, "2100-01-01T00:00:00Z", wire.StreamClosed, "true")
	const created = `"created":"2023-11-14T22:13:20.000Z"`

	got := lookAt(t, s.streams.Inspect, "/streams/logs/a")
	assert.Equal(t, 200, got.Code)
	assert.JSONEq(t, `{"name":"/logs/a","id":1,"content_type":"text/plain",`+created+`,"start_seq":0,"next_seq":1,
		"closed":false,"deleted":false,"ttl":60,"extents":1,"live_forks":1}`, got.Body.String())

	got = lookAt(t, s.streams.Inspect, "/streams/fork")
	assert.JSONEq(t, `{"name":"/fork","id":2,"content_type":"text/plain",`+created+`,"start_seq":0,"next_seq":1,
		"closed":true,"deleted":false,"expires_at":"2100-01-01T00:00:00Z","extents":1,
		"fork":{"from":"/logs/a","parent_id":1,"seq":0,"sub_offset":3},"live_forks":0}`, got.Body.String())

	s.must(http.MethodDelete, "/logs/a", "")
	got = lookAt(t, s.streams.Inspect, "/streams/logs/a")
	assert.JSONEq(t, `{"name":"/logs/a","id":1,"content_type":"text/plain",`+created+`,"start_seq":1,"next_seq":1,
		"closed":false,"deleted":true,"extents":0,"live_forks":1}`, got.Body.String())

	s.must(http.MethodDelete, "/fork", "")
	assert.Equal(t, 404, lookAt(t, s.streams.Inspect, "/streams/logs/a").Code)
}

func TestAdminTakesNamesByteForByte(t *testing.T) {
	for path, name := range map[string]stream.Name{
		"/streams/a/b":            "a/b",
		"/streams/a%2Fb%20c%25":   "a/b c%",
		"/streams/streams/a":      "streams/a",
		"/streams/v1/stream/a":    "v1/stream/a",
		"/streams/%C3%A9?ignored": "é",
	} {
		var asked stream.Name
		got := lookAt(t, func(_ context.Context, name stream.Name) (stream.Detail, error) {
			asked = name
			return stream.Detail{}, nil
		}, path)
		assert.Equal(t, 200, got.Code, path)
		assert.Equal(t, name, asked)
	}
}

func TestAdminRefusals(t *testing.T) {
	unavailable := &stream.Error{Code: stream.CodeUnavailable, Message: "the log is out of reach", RetryAfter: 1500 * time.Millisecond}
	for _, row := range []struct {
		name, path string
		err        error
		status     int
		body       string
		retry      string
	}{
		{"no name", "/streams/", nil, 400, "bad_request", ""},
		{"a doubled slash", "/streams/a//b", nil, 400, "bad_request", ""},
		{"dots", "/streams/a/../b", nil, 400, "bad_request", ""},
		{"escaped dots", "/streams/%2e%2e/b", nil, 400, "bad_request", ""},
		{"not UTF-8", "/streams/%ff", nil, 400, "bad_request", ""},
		{"reserved", "/streams/__ds/a", nil, 400, "bad_request", ""},
		{"a name of 2 KiB", "/streams/" + strings.Repeat("n", 2<<10), nil, 400, "bad_request", ""},
		{"no such stream", "/streams/a", stream.Errorf(stream.CodeNotFound, "there is no stream a"), 404, "there is no stream a", ""},
		{"no log", "/streams/a", unavailable, 503, "the log is out of reach", "2"},
		{"a fault", "/streams/a", errors.New("the disk is on fire"), 500, "the disk is on fire", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := lookAt(t, func(context.Context, stream.Name) (stream.Detail, error) { return stream.Detail{}, row.err }, row.path)
			assert.Equal(t, row.status, got.Code)
			assert.Contains(t, got.Body.String(), row.body)
			assert.Regexp(t, `^\{"error":"[a-z_]+","message":".+"\}\n$`, got.Body.String())
			assert.Equal(t, row.retry, got.Header().Get("Retry-After"))
		})
	}
}
