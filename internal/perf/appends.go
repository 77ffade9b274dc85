package main

import (
	"context"
	"fmt"

	"github.com/picomq/picomq/internal/loadgen"
)

// appendsRow is what the server takes of many clients that each send one small
// record at a time, beside a handler that throws them away.
var appendsRow = row{
	name: "appends",
	what: "appends a second: 512 closed-loop clients, one record of 256 bytes a request",
	run:  runAppends,
}

const (
	appendClients = 512
	appendRounds  = 3
)

// The aims of the row.
const (
	appendShare = 0.55 // of the trivial handler
	appendCliff = 0.7  // of the best number of streams, for the worst
)

// runAppends measures all numbers of streams and the handler in every round, so
// that they can be compared with each other.
func runAppends(ctx context.Context, w *world) ([]line, error) {
	server, err := w.serve(ctx, nil)
	if err != nil {
		return nil, err
	}
	trivial, err := w.baseline(ctx, "discard")
	if err != nil {
		return nil, err
	}
	sides := []*appendSide{{url: trivial, streams: 512}}
	for _, streams := range []int{1, 512, 100_000} {
		sides = append(sides, &appendSide{url: server.URL, streams: streams})
	}
	for _, side := range sides {
		if err := side.open(ctx, w); err != nil {
			return nil, err
		}
	}
	for range appendRounds {
		for i, side := range sides {
			run := func() error { return side.run(ctx) }
			if i > 0 {
				run = func() error {
					return w.profiled(ctx, server, fmt.Sprintf("appends-%d", side.streams), func() error { return side.run(ctx) })
				}
			}
			if err := run(); err != nil {
				return nil, err
			}
		}
	}
	return appendLines(median(sides[0].rates), sides[1:]), nil
}

func appendLines(baseline float64, sides []*appendSide) []line {
	var lines []line
	var best, worst *appendSide
	for _, side := range sides {
		rate := median(side.rates)
		lines = append(lines, share(fmt.Sprintf("appends to %d streams", side.streams), "/s", rate, baseline, appendShare))
		if best == nil || rate > median(best.rates) {
			best = side
		}
		if worst == nil || rate < median(worst.rates) {
			worst = side
		}
	}
	return append(lines, share(fmt.Sprintf("appends to %d streams beside %d", worst.streams, best.streams), "/s",
		median(worst.rates), median(best.rates), appendCliff))
}

// appendSide is one load, and the rates it had.
type appendSide struct {
	url     string
	streams int
	session *loadgen.Session
	rates   []float64
}

// open makes the streams. They stay until their server goes.
func (s *appendSide) open(ctx context.Context, w *world) (err error) {
	s.session, err = loadgen.Open(ctx, loadgen.Config{
		Endpoint: s.url, Connections: appendClients, Streams: s.streams, Size: 256, Batch: 1, Duration: w.duration,
	})
	return err
}

func (s *appendSide) run(ctx context.Context) error {
	report, err := s.session.Run(ctx)
	if err != nil {
		return err
	}
	if len(report.Failures) > 0 {
		return fmt.Errorf("appends failed: %v", report.Failures)
	}
	s.rates = append(s.rates, report.AppendsPerSecond)
	return nil
}
