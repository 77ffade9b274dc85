package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/picomq/picomq/stream"
)

// Metrics counts what an [API] serves. It is a [prometheus.Collector]: register
// it once with the registry that [AdminHandler] exposes. Label values come from
// fixed sets, never from a client.
type Metrics struct {
	requests    *prometheus.CounterVec
	refusals    *prometheus.CounterVec
	appends     *prometheus.HistogramVec
	reads       *prometheus.HistogramVec
	subscribers *prometheus.GaugeVec
	bodyBytes   *prometheus.CounterVec
	eventHits   prometheus.Counter
	eventMisses prometheus.Counter
}

// latencyBuckets span an append to a local disk and one to a slow bucket.
var latencyBuckets = prometheus.ExponentialBucketsRange(0.0005, 30, 17)

// NewMetrics makes metrics that count from zero.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "picomq_http_" + name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "picomq_http_" + name, Help: help, Buckets: latencyBuckets,
		}, []string{"protocol"})
	}
	refused := counter("refusals_total", "Requests refused, by the rule that refused them.", "code")
	for code := range refusals {
		refused.WithLabelValues(code.String()) // there before the first, so that a rate sees it
	}
	events := counter("events_total", "Event encodings that were found ready (hit) or made (miss).", "result")
	return &Metrics{
		requests:    counter("requests_total", "Requests answered.", "protocol", "method", "status"),
		refusals:    refused,
		appends:     histogram("append_seconds", "Time of PUT and POST requests that were carried out, body included."),
		reads:       histogram("read_seconds", "Time of GET and HEAD requests that were carried out, live ones excepted."),
		subscribers: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "picomq_http_subscribers", Help: "Live readers connected now."}, []string{"kind"}),
		bodyBytes:   counter("body_bytes_total", "Bytes of bodies received (in) and sent (out).", "direction"),
		eventHits:   events.WithLabelValues("hit"),
		eventMisses: events.WithLabelValues("miss"),
	}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.requests, m.refusals, m.appends, m.reads, m.subscribers, m.bodyBytes, m.eventHits, m.eventMisses,
	}
}

// subscriberKind is a way to follow a stream.
type subscriberKind string

const (
	longPoll    subscriberKind = "long_poll"
	eventStream subscriberKind = "sse"
)

func (m *Metrics) refused(code stream.Code) { m.refusals.WithLabelValues(code.String()).Inc() }

// answered counts a finished request.
func (m *Metrics) answered(r *http.Request, e *exchange, took time.Duration) {
	protocol := protocolOf(r)
	m.requests.WithLabelValues(protocol, methodLabel(r.Method), statusLabel(r, e.status)).Inc()
	m.bodyBytes.WithLabelValues("out").Add(float64(e.written))
	if e.status >= http.StatusBadRequest || e.live {
		return
	}
	switch r.Method {
	case http.MethodPut, http.MethodPost:
		m.appends.WithLabelValues(protocol).Observe(took.Seconds())
	case http.MethodGet, http.MethodHead:
		m.reads.WithLabelValues(protocol).Observe(took.Seconds())
	}
}

// statusLabel is a status, or 499 for a failure that only says that the client
// left before it was answered.
func statusLabel(r *http.Request, status int) string {
	if status >= http.StatusInternalServerError && clientLeft(r) {
		return "499"
	}
	return strconv.Itoa(status)
}

// methodLabel keeps methods that nobody has heard of out of the label set.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return "other"
	}
}
