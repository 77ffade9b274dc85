package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/internal/memstreams"
	"github.com/picomq/picomq/stream"
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
				Cluster:  noCluster,
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

// noCluster describes the nodes of a server that is none.
func noCluster(context.Context) (wire.Cluster, error) { return wire.Cluster{}, nil }

func TestAdminShowsTheCluster(t *testing.T) {
	applied := uint64(7)
	answer, failure := wire.Cluster{ID: "00ff", Head: 9, Node: 1, Leases: []wire.Lease{}, Nodes: []wire.Node{
		{Node: 1, Epoch: 4, State: wire.NodeLive, Release: "v1", Level: 1, Applied: &applied},
		{Node: 2, Epoch: 5, State: wire.NodeGone, Release: "v1", Level: 1},
	}}, error(nil)
	handler, err := AdminHandler(AdminConfig{
		Ready:    func(context.Context) error { return nil },
		Inspect:  memstreams.New().Inspect,
		Cluster:  func(context.Context) (wire.Cluster, error) { return answer, failure },
		Gatherer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	look := func() *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/cluster", http.NoBody))
		return recorder
	}
	require.JSONEq(t, `{"id":"00ff","head":9,"level":0,"release":"","node":1,"leases":[],"nodes":[
		{"node":1,"epoch":4,"state":"live","release":"v1","level":1,"applied":7},
		{"node":2,"epoch":5,"state":"gone","release":"v1","level":1}]}`, look().Body.String())

	require.True(t, strings.HasSuffix(look().Body.String(), "}\n"))

	failure = stream.Errorf(stream.CodeUnavailable, "the log is out of reach")
	refused := look()
	require.Equal(t, http.StatusServiceUnavailable, refused.Code)
	require.NotEmpty(t, refused.Header().Get("Retry-After"))
	require.Contains(t, refused.Body.String(), "out of reach")
}

func TestAdminConfigIsValidated(t *testing.T) {
	valid := AdminConfig{
		Ready:    func(context.Context) error { return nil },
		Inspect:  memstreams.New().Inspect,
		Cluster:  noCluster,
		Gatherer: prometheus.NewRegistry(),
	}
	_, err := AdminHandler(valid)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*AdminConfig){
		"Ready":    func(c *AdminConfig) { c.Ready = nil },
		"Inspect":  func(c *AdminConfig) { c.Inspect = nil },
		"Cluster":  func(c *AdminConfig) { c.Cluster = nil },
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
