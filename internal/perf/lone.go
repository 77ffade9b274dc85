package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/picomq/picomq/internal/loadgen"
	"github.com/picomq/picomq/internal/process"
)

// loneRow is what the server adds to what an append cannot do without.
var loneRow = row{
	name: "lone",
	what: "latency of one client, one record of 256 bytes at a time, over a bare put and a bare commit",
	run: func(ctx context.Context, w *world) ([]line, error) {
		l := latency{name: "lone", what: "a lone append", clients: 1}
		m, err := l.measure(ctx, w)
		if err != nil {
			return nil, err
		}
		return []line{added("a lone append, p50", m.p50, m.bare50, 0.3), added("a lone append, p99", m.p99, m.bare99, 1)}, nil
	},
}

// slowBucket is a bucket behind a network: 20 ms a put, and one in a hundred
// half a second.
const slowBucket = "put=20ms,straggle=0.01:500ms,seed=1"

// loneSlowRow is the lone client before a bucket that is slow and now and then
// much slower.
var loneSlowRow = row{
	name: "lone-20ms",
	what: "the same with 20 ms a put, of which one in a hundred takes 500 ms",
	run: func(ctx context.Context, w *world) ([]line, error) {
		return runSlow(ctx, w, latency{name: "lone-20ms", what: "a lone append, 20 ms a put", clients: 1, faults: slowBucket})
	},
}

// appendsSlowRow is the appends row before that bucket.
var appendsSlowRow = row{
	name: "appends-20ms",
	what: "latency of 512 closed-loop clients, one record of 256 bytes a request, with such puts",
	run: func(ctx context.Context, w *world) ([]line, error) {
		return runSlow(ctx, w, latency{
			name: "appends-20ms", what: "an append of 512 clients, 20 ms a put", clients: appendClients, faults: slowBucket,
		})
	},
}

func runSlow(ctx context.Context, w *world, l latency) ([]line, error) {
	m, err := l.measure(ctx, w)
	if err != nil {
		return nil, err
	}
	tail := line{
		what: l.what + ", p99 over its p50", measured: figure(m.p99, "ms"), baseline: figure(m.p50, "ms"),
		ratio: fmt.Sprintf("%.2f ×", m.p99/m.p50), aim: "under 3 ×", met: m.p99 < 3*m.p50,
	}
	return []line{added(l.what+fmt.Sprintf(" (%.0f/s), p50", m.rate), m.p50, m.bare50, 1), tail}, nil
}

// latencyRounds is how often server and baseline take turns.
const latencyRounds = 3

// latency is a closed loop whose latencies stand beside those of bare commits.
type latency struct {
	name, what string
	clients    int
	faults     string // of the bucket; none on a local disk
}

// latencies are medians over the rounds, in milliseconds.
type latencies struct {
	p50, p99, bare50, bare99 float64
	rate                     float64 // appends a second
}

func (l latency) measure(ctx context.Context, w *world) (m latencies, err error) {
	server, err := l.serve(ctx, w)
	if err != nil {
		return m, err
	}
	bare, err := w.newBare(ctx, l.faults)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	session, err := loadgen.Open(ctx, loadgen.Config{
		Endpoint: server.URL, Connections: l.clients, Streams: l.clients, Size: 256, Batch: 1, Duration: w.duration,
	})
	if err != nil {
		return m, err
	}
	var p50, p99, bare50, bare99, rate []float64
	for round := range latencyRounds + 1 {
		took, err := bare.run(ctx, w.duration)
		if err != nil {
			return m, err
		}
		var report *loadgen.Report
		err = w.profiled(ctx, server, l.name, func() error {
			report, err = session.Run(ctx)
			return err
		})
		if err != nil {
			return m, err
		}
		if len(report.Failures) > 0 {
			return m, fmt.Errorf("appends failed: %v", report.Failures)
		}
		if round == 0 {
			continue // the server learns what is usual, and the machine warms up
		}
		bare50, bare99 = append(bare50, millis(percentile(took, 0.5))), append(bare99, millis(percentile(took, 0.99)))
		p50, p99 = append(p50, report.AppendLatency.P50), append(p99, report.AppendLatency.P99)
		rate = append(rate, report.AppendsPerSecond)
	}
	return latencies{p50: median(p50), p99: median(p99), bare50: median(bare50), bare99: median(bare99), rate: median(rate)}, nil
}

// serve starts a server on a local disk, or before a slow bucket: one in memory,
// which the server takes for no disk, with its log where it would be.
func (l latency) serve(ctx context.Context, w *world) (*process.Server, error) {
	if l.faults == "" {
		return w.serve(ctx, nil)
	}
	dir, err := w.dir("log")
	if err != nil {
		return nil, err
	}
	return w.serve(ctx, []string{"PICOMQ_BUCKET_FAULTS=" + l.faults},
		"--storage", "mem://", "--meta-url", "sqlite://"+filepath.Join(dir, "log.db"), "--wal-hedge", "on")
}

// added is a line whose aim is the most that the server may add, in milliseconds.
func added(what string, measured, baseline, most float64) line {
	return line{
		what: what, measured: figure(measured, "ms"), baseline: figure(baseline, "ms"), ratio: fmt.Sprintf("%+.2f ms", measured-baseline),
		aim: fmt.Sprintf("at most %g ms more", most), met: measured-baseline <= most,
	}
}
