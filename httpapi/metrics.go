package httpapi

import (
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
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

	bodyIn, bodyOut prometheus.Counter // of bodyBytes

	// answers are found once for each kind of answer, of which there are few: a
	// look-up by labels costs more than counting. The map is replaced, never
	// changed; mu is for whoever replaces it.
	answers atomic.Pointer[map[answerKind]answerMetrics]
	mu      sync.Mutex
}

// answerKind is what tells answers apart in the metrics.
type answerKind struct {
	protocol, method string // as labels
	status           int
}

// answerMetrics are where answers of one kind are counted.
type answerMetrics struct {
	requests prometheus.Counter
	seconds  prometheus.Observer // nil for a kind that is not timed
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
	bytes := counter("body_bytes_total", "Bytes of bodies received (in) and sent (out).", "direction")
	m := &Metrics{
		requests:    counter("requests_total", "Requests answered.", "protocol", "method", "status"),
		refusals:    refused,
		appends:     histogram("append_seconds", "Time of PUT and POST requests that were carried out, body included."),
		reads:       histogram("read_seconds", "Time of GET and HEAD requests that were carried out, live ones excepted."),
		subscribers: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "picomq_http_subscribers", Help: "Live readers connected now."}, []string{"kind"}),
		bodyBytes:   bytes,
		bodyIn:      bytes.WithLabelValues("in"),
		bodyOut:     bytes.WithLabelValues("out"),
		eventHits:   events.WithLabelValues("hit"),
		eventMisses: events.WithLabelValues("miss"),
	}
	m.answers.Store(&map[answerKind]answerMetrics{})
	return m
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
	found := m.answer(answerKind{protocolOf(r), methodLabel(r.Method), countedStatus(r, e.status)})
	found.requests.Inc()
	if e.written > 0 {
		m.bodyOut.Add(float64(e.written))
	}
	if found.seconds != nil && !e.live {
		found.seconds.Observe(took.Seconds())
	}
}

// answer finds the metrics of a kind of answer.
func (m *Metrics) answer(kind answerKind) answerMetrics {
	if found, ok := (*m.answers.Load())[kind]; ok {
		return found
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	made := answerMetrics{requests: m.requests.WithLabelValues(kind.protocol, kind.method, strconv.Itoa(kind.status))}
	if kind.status < http.StatusBadRequest {
		switch kind.method {
		case http.MethodPut, http.MethodPost:
			made.seconds = m.appends.WithLabelValues(kind.protocol)
		case http.MethodGet, http.MethodHead:
			made.seconds = m.reads.WithLabelValues(kind.protocol)
		}
	}
	answers := maps.Clone(*m.answers.Load())
	answers[kind] = made
	m.answers.Store(&answers)
	return made
}

// clientClosedRequest is the status, as others use it, of a failure that only
// says that the client left before it was answered.
const clientClosedRequest = 499

// countedStatus is the status that a request counts under.
func countedStatus(r *http.Request, status int) int {
	if status >= http.StatusInternalServerError && clientLeft(r) {
		return clientClosedRequest
	}
	return status
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
