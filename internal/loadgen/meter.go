package loadgen

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms hold microseconds up to longestLatency; what is longer counts as
// that.
const (
	longestLatency    = time.Minute
	significantDigits = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longestLatency.Microseconds(), significantDigits)
}

// meter collects latencies from many goroutines into a few histograms.
type meter struct {
	count  atomic.Int64
	shards []shard
}

type shard struct {
	mu        sync.Mutex
	histogram *hdrhistogram.Histogram // guarded by mu
}

func newMeter() *meter {
	m := &meter{shards: make([]shard, runtime.GOMAXPROCS(0)*2)}
	for i := range m.shards {
		m.shards[i].histogram = newHistogram()
	}
	return m
}

// record counts one latency; who spreads its callers over the shards.
func (m *meter) record(who int, latency time.Duration) {
	m.count.Add(1)
	micros := min(max(latency.Microseconds(), 1), longestLatency.Microseconds())
	s := &m.shards[who%len(m.shards)]
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.histogram.RecordValue(micros) // it is in range
}

// latency sums the shards up.
func (m *meter) latency() Latency {
	sum := newHistogram()
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		sum.Merge(s.histogram)
		s.mu.Unlock()
	}
	return latencyOf(sum)
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	at := func(percentile float64) float64 { return float64(h.ValueAtPercentile(percentile)) / 1000 }
	return Latency{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1000}
}

// failures counts what was not a success, by status; "connection" stands for
// those without an answer.
type failures struct {
	mu     sync.Mutex
	counts map[string]int64 // guarded by mu
	last   error            // of a connection; guarded by mu
}

func (f *failures) status(code int) { f.add(strconv.Itoa(code), nil) }

func (f *failures) connection(err error) { f.add("connection", err) }

func (f *failures) add(what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = make(map[string]int64)
	}
	f.counts[what]++
	if err != nil {
		f.last = err
	}
}
