package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/upkeep"
)

// registerUpkeep says what maintenance has to do, does, and found.
func (n *node) registerUpkeep(r *prometheus.Registry, c *config) {
	view, jobs := n.replica.View(), n.upkeep
	r.MustRegister(newJobMetrics(jobs), newSegmentMetrics(view))
	gauge(r, "extents_limit", "Extents beyond which appends are refused.", func() float64 { return float64(c.maxExtents) })
	gauge(r, "segments_dead", "Segments that nothing refers to.", func() float64 { return float64(view.Counts().Dead) })
	gauge(r, "segments_doomed", "Dead segments whose objects are about to be deleted.", func() float64 { return float64(view.Counts().Doomed) })
	gauge(r, "segment_dead_bytes", "Bytes of dead segments.", func() float64 { return float64(view.Counts().DeadBytes) })
	gauge(r, "segment_referenced_bytes", "Bytes of segments that streams refer to, what forks share once each.", func() float64 { return float64(view.Counts().Referenced) })
	gauge(r, "upkeep_leads", "1 where this node does the cluster's maintenance.", func() float64 {
		if jobs.Leads() {
			return 1
		}
		return 0
	})
	n.registerCompaction(r)
	n.registerSweep(r)
}

func (n *node) registerCompaction(r *prometheus.Registry) {
	done := n.upkeep.Compaction
	counter(r, "compact_runs_total", "Compactions that ended well.", func() float64 { return float64(done().Runs) })
	counter(r, "compact_inputs_total", "Segments that were rewritten.", func() float64 { return float64(done().Inputs) })
	counter(r, "compact_outputs_total", "Packed segments written.", func() float64 { return float64(done().Outputs) })
	counter(r, "compact_read_bytes_total", "Bytes read from the bucket for compaction.", func() float64 { return float64(done().Read) })
	counter(r, "compact_written_bytes_total", "Bytes of packed segments written.", func() float64 { return float64(done().Written) })
	counter(r, "compact_extents_total", "Extents that compaction replaced.", func() float64 { return float64(done().Extents) })
	gauge(r, "compact_unusable_segments", "Segments that compaction leaves alone, since they cannot be read.", func() float64 { return float64(done().Unusable) })
}

// registerSweep is about the last comparison of the bucket with the log by this
// node, and 0 before the first.
func (n *node) registerSweep(r *prometheus.Registry) {
	last := n.upkeep.Swept
	gauge(r, "sweep_end_seconds", "When the bucket was last compared with the log, in Unix seconds.", func() float64 {
		if s := last(); !s.Ended.IsZero() {
			return float64(s.Ended.Unix())
		}
		return 0
	})
	gauge(r, "sweep_objects", "Segments that the bucket held when it was last compared with the log.", func() float64 { return float64(last().Objects) })
	gauge(r, "sweep_bytes", "Bytes of the segments that the bucket held when it was last compared with the log.", func() float64 { return float64(last().Bytes) })
	gauge(r, "sweep_orphans", "Objects deleted by the last comparison, since nothing refers to them.", func() float64 { return float64(last().Orphans) })
	gauge(r, "sweep_foreign", "Keys among those of segments that are none.", func() float64 { return float64(last().Foreign) })
	gauge(r, "sweep_missing", "Segments that streams refer to and the bucket did not have.", func() float64 { return float64(last().Missing) })
	gauge(r, "sweep_damaged", "Segments whose objects did not have the size that was written.", func() float64 { return float64(last().Damaged) })
}

// jobMetrics is how the jobs of maintenance are doing.
type jobMetrics struct {
	upkeep                       *upkeep.Upkeep
	begun                        time.Time
	backlog, age, steps, failure *prometheus.Desc
}

func newJobMetrics(u *upkeep.Upkeep) *jobMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("picomq_upkeep_"+name, help, []string{"job"}, nil)
	}
	return &jobMetrics{
		upkeep: u, begun: time.Now(),
		backlog: desc("backlog", "What a job has to do, in its own unit; the same on every node."),
		age:     desc("age_seconds", "Since this node last finished a job, or started; 0 with nothing to do."),
		steps:   desc("steps_total", "Steps of a job that succeeded."),
		failure: desc("failures_total", "Steps of a job that failed and are tried again."),
	}
}

// Describe implements prometheus.Collector.
func (m *jobMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.backlog, m.age, m.steps, m.failure} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *jobMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, s := range m.upkeep.Status() {
		age := 0.0
		if s.Backlog > 0 {
			done := s.Done
			if done.Before(m.begun) {
				done = m.begun
			}
			age = time.Since(done).Seconds()
		}
		ch <- prometheus.MustNewConstMetric(m.backlog, prometheus.GaugeValue, float64(s.Backlog), s.Job)
		ch <- prometheus.MustNewConstMetric(m.age, prometheus.GaugeValue, age, s.Job)
		ch <- prometheus.MustNewConstMetric(m.steps, prometheus.CounterValue, float64(s.Steps), s.Job)
		ch <- prometheus.MustNewConstMetric(m.failure, prometheus.CounterValue, float64(s.Failed), s.Job)
	}
}

// segmentMetrics is the catalogue by size of segments. It is read through when
// it is asked for, some 10 ms for each million segments.
type segmentMetrics struct {
	view         statemachine.View
	count, bytes *prometheus.Desc
}

// sizeClasses are upper bounds: small groups, full groups, packed segments.
var sizeClasses = []struct {
	name string
	upTo uint64
}{{"64KiB", 64 << 10}, {"1MiB", 1 << 20}, {"8MiB", 8 << 20}, {"64MiB", 64 << 20}, {"more", 1<<64 - 1}}

func newSegmentMetrics(view statemachine.View) *segmentMetrics {
	labels := []string{"up_to"}
	return &segmentMetrics{
		view:  view,
		count: prometheus.NewDesc("picomq_segments_by_size", "Segments in the catalogue, by size.", labels, nil),
		bytes: prometheus.NewDesc("picomq_segment_bytes_by_size", "Bytes of the segments in the catalogue, by size of the segment.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *segmentMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.count
	ch <- m.bytes
}

// Collect implements prometheus.Collector.
func (m *segmentMetrics) Collect(ch chan<- prometheus.Metric) {
	count, bytes := make([]uint64, len(sizeClasses)), make([]uint64, len(sizeClasses))
	for from, more := uint32(0), true; more; more = from != 0 {
		var list []statemachine.Slotted
		list, from = m.view.Segments(from, 1<<12)
		for i := range list {
			class := 0
			for list[i].Size > sizeClasses[class].upTo {
				class++
			}
			count[class]++
			bytes[class] += list[i].Size
		}
	}
	for i, class := range sizeClasses {
		ch <- prometheus.MustNewConstMetric(m.count, prometheus.GaugeValue, float64(count[i]), class.name)
		ch <- prometheus.MustNewConstMetric(m.bytes, prometheus.GaugeValue, float64(bytes[i]), class.name)
	}
}
