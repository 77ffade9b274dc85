package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/httpapi"
)

// registry gathers what every part of the node counts.
func (n *node) registry(c *config, http *httpapi.Metrics) *prometheus.Registry {
	r := prometheus.NewRegistry()
	labels := prometheus.Labels{"version": version, "cluster": c.clusterID}
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "picomq_info", Help: "1, with the version and the cluster's label.", ConstLabels: labels,
	}, func() float64 { return 1 })
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build, http, n.seals)
	n.registerState(r)
	n.registerLog(r)
	n.registerCombiner(r)
	n.registerWriter(r)
	n.registerCache(r)
	n.registerPeers(r)
	n.registerUpkeep(r, c)
	return r
}

// gauge and counter register a value that is read when it is asked for.
func gauge(r *prometheus.Registry, name, help string, value func() float64) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "picomq_" + name, Help: help}, value))
}

func counter(r *prometheus.Registry, name, help string, value func() float64) {
	r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "picomq_" + name, Help: help}, value))
}

func (n *node) registerState(r *prometheus.Registry) {
	view := n.replica.View()
	gauge(r, "streams", "Streams that exist.", func() float64 {
		counts := view.Counts()
		return float64(counts.Streams - counts.Deleted)
	})
	gauge(r, "streams_deleted", "Deleted streams whose names are kept while forks of them live.", func() float64 { return float64(view.Counts().Deleted) })
	gauge(r, "segments", "Segments in the catalogue.", func() float64 { return float64(view.Counts().Segments) })
	gauge(r, "extents", "Extents of all streams.", func() float64 { return float64(view.Counts().Extents) })
	gauge(r, "producers", "Producers remembered by streams.", func() float64 { return float64(view.Counts().Producers) })
	gauge(r, "waiting_readers", "Parked followers.", func() float64 { return float64(n.engine.Waiting()) })
}

func (n *node) registerLog(r *prometheus.Registry) {
	gauge(r, "log_applied_index", "Index of the last applied row.", func() float64 { return float64(n.replica.Applied()) })
	counter(r, "log_rows_total", "Rows with commands of this node, whoever inserted them.", func() float64 { return float64(n.replica.Stats().Rows) })
	counter(r, "log_groups_total", "Groups of commands of this node in these rows.", func() float64 { return float64(n.replica.Stats().Groups) })
	counter(r, "log_retries_total", "Inserts tried again.", func() float64 { return float64(n.replica.Stats().Retries) })
	counter(r, "rejoins_total", "How often this node was taken for gone and registered anew.", func() float64 { return float64(n.replica.Stats().Rejoins) })
	counter(r, "log_errors_total", "Calls to the log that failed.", func() float64 { return float64(n.replica.Stats().LogErrors) })
	gauge(r, "log_queue_bytes", "Bytes of commands that wait for a row.", func() float64 { return float64(n.replica.Stats().QueueBytes) })
	gauge(r, "log_contact_age_seconds", "Since the log last answered.", func() float64 {
		if n.log.Exclusive() {
			return 0
		}
		return n.replica.Stale().Seconds()
	})
	gauge(r, "log_tail_lag", "Rows that the log had at the last look and this node had not applied.", func() float64 { return float64(n.replica.Stats().Lag) })
	gauge(r, "log_rows", "Rows in the log.", func() float64 { return float64(n.replica.Stats().LogRows) })
	gauge(r, "archive_index", "Index of the last row in the archive.", func() float64 { return float64(n.replica.Stats().Archived) })
	gauge(r, "archive_lag_rows", "Rows of the log that the archive lacks: what the bucket alone would lose.", func() float64 { return float64(n.replica.Stats().ArchiveLag) })
	gauge(r, "snapshot_index", "Index of the last confirmed snapshot.", func() float64 { return float64(n.replica.Stats().SnapshotIndex) })
}

func (n *node) registerWriter(r *prometheus.Registry) {
	stats := n.engine.Writer
	counter(r, "wal_puts_total", "Segments stored.", func() float64 { return float64(stats().Puts) })
	counter(r, "wal_put_failures_total", "Tries to store a segment that failed.", func() float64 { return float64(stats().PutFailures) })
	counter(r, "wal_hedges_total", "Segments put a second time because the first put took long.", func() float64 { return float64(stats().Hedges) })
	counter(r, "wal_hedges_won_total", "Those whose second put was done first.", func() float64 { return float64(stats().HedgesWon) })
	counter(r, "wal_given_up_total", "Segments that could not be stored in time.", func() float64 { return float64(stats().GivenUp) })
	counter(r, "wal_appends_total", "Appends in delivered segments.", func() float64 { return float64(stats().Appends) })
	counter(r, "wal_records_total", "Records in delivered segments.", func() float64 { return float64(stats().Records) })
	counter(r, "wal_bytes_total", "Bytes of stored segments.", func() float64 { return float64(stats().Bytes) })
	gauge(r, "wal_backlog_bytes", "Bytes of appends that wait to be stored.", func() float64 { return float64(stats().Backlog) })
	gauge(r, "wal_uploads", "Uploads under way.", func() float64 { return float64(stats().InFlight) })
	gauge(r, "inflight_bytes", "Bytes of appends that are not decided yet.", func() float64 { return float64(n.engine.InFlight()) })
}

// sealMetrics are distributions over segments. The writer tells each seal.
type sealMetrics struct {
	appends, bytes, waited, put prometheus.Histogram
}

func newSealMetrics() *sealMetrics {
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "picomq_wal_" + name, Help: help, Buckets: buckets})
	}
	seconds := prometheus.ExponentialBucketsRange(0.0001, 30, 18)
	return &sealMetrics{
		appends: histogram("group_appends", "Appends per segment.", prometheus.ExponentialBuckets(1, 4, 8)),
		bytes:   histogram("group_bytes", "Bytes per segment.", prometheus.ExponentialBuckets(256, 4, 8)),
		waited:  histogram("group_wait_seconds", "From a segment's first append to its seal.", seconds),
		put:     histogram("put_seconds", "Time of the puts that succeeded.", seconds),
	}
}

func (m *sealMetrics) observe(s blobwal.Seal) {
	m.appends.Observe(float64(s.Appends))
	m.bytes.Observe(float64(s.Bytes))
	m.waited.Observe(s.Waited.Seconds())
	if !s.GivenUp {
		m.put.Observe(s.Put.Seconds())
	}
}

// Describe implements prometheus.Collector.
func (m *sealMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, h := range []prometheus.Histogram{m.appends, m.bytes, m.waited, m.put} {
		h.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *sealMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, h := range []prometheus.Histogram{m.appends, m.bytes, m.waited, m.put} {
		h.Collect(ch)
	}
}

func (n *node) registerCache(r *prometheus.Registry) {
	stats := n.cache.Stats
	counter(r, "cache_tail_hits_total", "Blocks read from recent segments in memory.", func() float64 { return float64(stats().TailHits) })
	counter(r, "cache_block_hits_total", "Blocks read from what was fetched before.", func() float64 { return float64(stats().BlockHits) })
	counter(r, "cache_misses_total", "Blocks that had to be fetched.", func() float64 { return float64(stats().Misses) })
	counter(r, "bucket_fetches_total", "Reads of the bucket.", func() float64 { return float64(stats().Fetches) })
	counter(r, "bucket_fetched_bytes_total", "Bytes read from the bucket.", func() float64 { return float64(stats().FetchedBytes) })
	counter(r, "bucket_fetch_failures_total", "Reads of the bucket that failed and were tried again or given up.", func() float64 { return float64(stats().Failures) })
	counter(r, "bad_objects_total", "Answers that an object is missing or spoiled.", func() float64 { return float64(stats().Missing + stats().Corrupt) })
	gauge(r, "cache_bytes", "Memory of recent segments and blocks.", func() float64 { return float64(stats().TailBytes + stats().BlockBytes) })
}
