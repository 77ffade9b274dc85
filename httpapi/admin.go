package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// AdminConfig is what the admin handler shows.
type AdminConfig struct {
	// Ready returns nil when the node can serve, and otherwise why it cannot, in
	// words for an operator. It is called for every look at /ready and must be
	// quick. Required.
	Ready func(ctx context.Context) error
	// Inspect describes a stream, also one that was deleted while forks of it live.
	// Required.
	Inspect func(ctx context.Context, name stream.Name) (stream.Detail, error)
	// Cluster describes the nodes. Required.
	Cluster func(ctx context.Context) (wire.Cluster, error)
	// Retention is what streams keep that state no bound of their own. Zero: all.
	Retention stream.Retention
	// Gatherer holds the metrics. Required.
	Gatherer prometheus.Gatherer
	// Pprof adds the profiler of net/http/pprof below /debug/pprof/. It lets
	// whoever reaches the listener slow the node down and read its memory.
	Pprof bool
	// Version is shown on the index page.
	Version string
}

// AdminHandler serves what operators and their tools look at, on a listener of
// its own that clients do not reach:
//
//	/health    200 while the process answers at all: restart it when not
//	/ready     200 when the node can serve, else 503 and the reason: send no traffic
//	/metrics   Prometheus
//	/streams/… one stream, deleted ones included that forks keep, as JSON ([wire.StreamDetail])
//	/cluster   the log's head, leases and nodes as JSON ([wire.Cluster])
//	/          an index in plain text
//
// It is safe for concurrent use.
func AdminHandler(config AdminConfig) (http.Handler, error) {
	if config.Ready == nil || config.Inspect == nil || config.Cluster == nil || config.Gatherer == nil {
		return nil, errors.New("httpapi: AdminConfig.Ready, Inspect, Cluster and Gatherer are required")
	}
	// Names of streams are taken as they were sent, as in [API.router].
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	pages := router.Methods(http.MethodGet, http.MethodHead).Subrouter()
	pages.HandleFunc("/", config.index)
	pages.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "alive\n")
	})
	pages.HandleFunc("/ready", config.ready)
	pages.Handle("/metrics", promhttp.HandlerFor(config.Gatherer, promhttp.HandlerOpts{}))
	pages.HandleFunc("/cluster", config.cluster)
	pages.PathPrefix(adminStreams).HandlerFunc(config.stream)
	if config.Pprof {
		routePprof(router)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Only the profiler's POST has a body; no other is waited for.
		var in arrival
		if in.receive(w, r, drainTimeout) && r.Method != http.MethodPost {
			in.settle()
		}
		router.ServeHTTP(w, r)
	}), nil
}

func (c AdminConfig) ready(w http.ResponseWriter, r *http.Request) {
	if err := c.Ready(r.Context()); err != nil {
		writeText(w, http.StatusServiceUnavailable, "not ready: "+err.Error()+"\n")
		return
	}
	writeText(w, http.StatusOK, "ready\n")
}

// cluster answers with the cluster as JSON.
func (c AdminConfig) cluster(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", cacheNever)
	described, err := c.Cluster(r.Context())
	if err != nil {
		refuseAdmin(w, err)
		return
	}
	writeAdminJSON(w, http.StatusOK, described)
}

func (c AdminConfig) index(w http.ResponseWriter, _ *http.Request) {
	var page strings.Builder
	fmt.Fprintf(&page, "PicoMQ %s\n\n", c.Version)
	page.WriteString("/health        200 while the process is alive\n")
	page.WriteString("/ready         200 when the node can serve, else 503 and why not\n")
	page.WriteString("/metrics       Prometheus metrics\n")
	page.WriteString("/streams/NAME  one stream as JSON: how many extents it has, its fork's source, how many live forks\n")
	page.WriteString("/cluster       the log's head, leases and nodes as JSON\n")
	if c.Pprof {
		page.WriteString("/debug/pprof/  profiles\n")
	}
	writeText(w, http.StatusOK, page.String())
}

func writeText(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", cacheNever)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // a client that has gone needs no answer
}

func routePprof(router *mux.Router) {
	router.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	router.HandleFunc("/debug/pprof/profile", pprof.Profile)
	router.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	router.HandleFunc("/debug/pprof/trace", pprof.Trace)
	router.PathPrefix("/debug/pprof/").HandlerFunc(pprof.Index)
}
