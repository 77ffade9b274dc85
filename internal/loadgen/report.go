package loadgen

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what a run measured. Its JSON form is the output of bench --json.
type Report struct {
	Endpoint    string  `json:"endpoint"`
	Protocol    string  `json:"protocol"`
	Connections int     `json:"connections"`
	Streams     int     `json:"streams"`
	Size        int     `json:"record_bytes"`
	Batch       int     `json:"records_per_append"`
	Rate        float64 `json:"rate_appends_per_second,omitempty"`
	Readers     int     `json:"live_readers"`

	Seconds          float64 `json:"seconds"`
	Appends          int64   `json:"appends"` // acknowledged
	AppendsPerSecond float64 `json:"appends_per_second"`
	RecordsPerSecond float64 `json:"records_per_second"`
	MBPerSecond      float64 `json:"megabytes_per_second"` // 10^6 bytes of records
	AppendLatency    Latency `json:"append_ms"`

	Delivered          int64    `json:"delivered,omitempty"` // records times readers
	DeliveredPerSecond float64  `json:"delivered_per_second,omitempty"`
	DeliveryLatency    *Latency `json:"delivery_ms,omitempty"` // from sending to a live reader's socket

	// Failures counts appends that were not acknowledged, by status, or as
	// "connection". ReaderFailures is the same for live readers.
	Failures       map[string]int64 `json:"failures,omitempty"`
	ReaderFailures map[string]int64 `json:"reader_failures,omitempty"`
	LastFailure    string           `json:"last_connection_failure,omitempty"`

	Baseline *Baseline `json:"baseline,omitempty"`
}

// Failed is nil when every append was acknowledged and every live reader was
// served; else it counts those that were not.
func (r *Report) Failed() error {
	appends, readers := sum(r.Failures), sum(r.ReaderFailures)
	switch {
	case appends > 0 && readers > 0:
		return fmt.Errorf("%d appends failed, and %d times a live reader did", appends, readers)
	case appends > 0:
		return fmt.Errorf("%d appends failed", appends)
	case readers > 0:
		return fmt.Errorf("live readers failed %d times", readers)
	default:
		return nil
	}
}

func sum(counts map[string]int64) (all int64) {
	for _, n := range counts {
		all += n
	}
	return all
}

// Latency is percentiles in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

func (l *load) report(elapsed time.Duration) *Report {
	c := l.config
	r := &Report{
		Endpoint: c.Endpoint, Protocol: c.Protocol.String(), Connections: c.Connections, Streams: c.Streams,
		Size: c.Size, Batch: c.Batch, Rate: c.Rate, Readers: c.Readers,
		Seconds:        elapsed.Seconds(),
		Appends:        l.appends.count.Load(),
		AppendLatency:  l.appends.latency(),
		Failures:       l.failed.counts,
		ReaderFailures: l.broken.counts,
	}
	r.AppendsPerSecond = float64(r.Appends) / r.Seconds
	r.RecordsPerSecond = r.AppendsPerSecond * float64(c.Batch)
	r.MBPerSecond = r.RecordsPerSecond * float64(c.Size) / 1e6
	if c.Readers > 0 {
		r.Delivered = l.delivered.count.Load()
		r.DeliveredPerSecond = float64(r.Delivered) / r.Seconds
		latency := l.delivered.latency()
		r.DeliveryLatency = &latency
	}
	for _, last := range []error{l.broken.last, l.failed.last} {
		if last != nil {
			r.LastFailure = last.Error()
		}
	}
	return r
}

// Write prints the report for people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %d connections, %d streams, %d x %d bytes an append, %d live readers, %.1f s\n\n",
		r.Endpoint, r.Protocol, r.Connections, r.Streams, r.Batch, r.Size, r.Readers, r.Seconds)
	fmt.Fprintf(&b, "appends    %10.0f /s   %8.2f MB/s   %10.0f records/s\n", r.AppendsPerSecond, r.MBPerSecond, r.RecordsPerSecond)
	if r.DeliveryLatency != nil {
		fmt.Fprintf(&b, "delivered  %10.0f /s   %10d records to live readers\n", r.DeliveredPerSecond, r.Delivered)
	}
	fmt.Fprintf(&b, "\n%-22s %9s %9s %9s %9s %9s\n", "latency in ms", "p50", "p90", "p99", "p99.9", "max")
	row := func(what string, l *Latency) {
		fmt.Fprintf(&b, "%-22s %9.2f %9.2f %9.2f %9.2f %9.2f\n", what, l.P50, l.P90, l.P99, l.P999, l.Max)
	}
	row("append", &r.AppendLatency)
	if r.DeliveryLatency != nil {
		row("delivery, live", r.DeliveryLatency)
	}
	if r.Baseline != nil {
		row("bare put+fsync+SQLite", &r.Baseline.Latency)
		fmt.Fprintf(&b, "\nbaseline   %10.0f bare put+fsync+SQLite commits/s, one at a time, in %s\n", r.Baseline.PerSecond, r.Baseline.Folder)
		fmt.Fprintf(&b, "ratio      %10.2f appends per bare commit, %.2f of its median latency\n", r.Baseline.ThroughputRatio, r.Baseline.LatencyRatio)
	}
	writeFailures(&b, "appends failed", r.Failures)
	writeFailures(&b, "live readers failed", r.ReaderFailures)
	if r.LastFailure != "" {
		fmt.Fprintf(&b, "last connection failure: %s\n", r.LastFailure)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeFailures(b *strings.Builder, what string, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:", what)
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(b, " %s: %d", status, counts[status])
	}
	b.WriteString("\n")
}
