package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/memstreams"
)

func TestAdminPages(t *testing.T) {
	notReady := errors.New("the log has not been replayed yet: 12 of 99 entries")
	for _, row := range []struct {
		name, method, path string
		ready              error
		pprof              bool
		status             int
		contains           string
	}{
		{"index", "GET", "/", nil, false, 200, "PicoMQ v1.2.3"},
		{"health", "GET", "/health", nil, false, 200, "alive"},
		{"health while not ready", "GET", "/health", notReady, false, 200, "alive"},
		{"health by HEAD", "HEAD", "/health", nil, false, 200, ""},
		{"ready", "GET", "/ready", nil, false, 200, "ready"},
		{"not ready", "GET", "/ready", notReady, false, 503, "12 of 99"},
		{"metrics", "GET", "/metrics", nil, false, 200, "picomq_http_requests_total"},
		{"no profiles", "GET", "/debug/pprof/", nil, false, 404, ""},
		{"profiles", "GET", "/debug/pprof/", nil, true, 200, "goroutine"},
		{"a profile", "GET", "/debug/pprof/goroutine?debug=1", nil, true, 200, "goroutine profile"},
		{"no stream", "GET", "/streams/none", nil, false, 404, "not_found"},
		{"no name", "GET", "/streams/", nil, false, 400, "bad_request"},
		{"nothing", "GET", "/nothing", nil, false, 404, ""},
		{"nothing to post", "POST", "/ready", nil, false, 405, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			metrics := NewMetrics()
			metrics.requests.WithLabelValues("durable", "GET", "200").Inc()
			registry := prometheus.NewRegistry()
			registry.MustRegister(metrics)
			handler, err := AdminHandler(AdminConfig{
				Ready:    func(context.Context) error { return row.ready },
				Inspect:  memstreams.New().Inspect,
				Gatherer: registry,
				Pprof:    row.pprof,
				Version:  "v1.2.3",
			})
			require.NoError(t, err)
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), row.method, row.path, http.NoBody))
			assert.Equal(t, row.status, recorder.Code)
			assert.Contains(t, recorder.Body.String(), row.contains)
		})
	}
}

func TestAdminConfigIsValidated(t *testing.T) {
	valid := AdminConfig{
		Ready:    func(context.Context) error { return nil },
		Inspect:  memstreams.New().Inspect,
		Gatherer: prometheus.NewRegistry(),
	}
	_, err := AdminHandler(valid)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*AdminConfig){
		"Ready":    func(c *AdminConfig) { c.Ready = nil },
		"Inspect":  func(c *AdminConfig) { c.Inspect = nil },
		"Gatherer": func(c *AdminConfig) { c.Gatherer = nil },
	} {
		config := valid
		spoil(&config)
		_, err := AdminHandler(config)
		assert.ErrorContains(t, err, name)
	}
}

func TestMetricsCountWhatIsServed(t *testing.T) {
	s := newService(t)
	m := s.api.config.Metrics
	s.must(http.MethodPut, "/v1/stream/a", "hello", "Content-Type", typeText)
	s.must(http.MethodPost, "/v1/stream/a", "world", "Content-Type", typeText)
	s.must(http.MethodGet, "/v1/stream/a", "")
	s.do(http.MethodGet, "/v1/stream/none", "")
	s.do("BREW", "/v1/stream/a", "")
	require.Eventually(t, func() bool { // a response may arrive before it is counted
		return testCount(m.requests.WithLabelValues("durable", "other", "405")) == 1
	}, readyTimeout, readyTick)
	assert.EqualValues(t, 1, testCount(m.requests.WithLabelValues("durable", "PUT", "201")))
	assert.EqualValues(t, 1, testCount(m.requests.WithLabelValues("durable", "POST", "204")))
	assert.EqualValues(t, 1, testCount(m.requests.WithLabelValues("durable", "GET", "404")))
	assert.EqualValues(t, 1, testCount(m.refusals.WithLabelValues("not_found")))
	assert.EqualValues(t, 10, testCount(m.bodyBytes.WithLabelValues("in")))
	assert.Greater(t, testCount(m.bodyBytes.WithLabelValues("out")), float64(len("helloworld")))
	assert.Equal(t, 1, testutil.CollectAndCount(m.appends))
	problems, err := testutil.CollectAndLint(m)
	require.NoError(t, err)
	assert.Empty(t, problems)
}
