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

const appendClients = 512

func runAppends(ctx context.Context, w *world) ([]line, error) {
	trivial, err := w.baseline(ctx, "discard")
	if err != nil {
		return nil, err
	}
	server, err := w.serve(ctx, nil)
	if err != nil {
		return nil, err
	}
	load := func(url string, streams int) (rate float64, err error) {
		report, err := loadgen.Run(ctx, loadgen.Config{
			Endpoint: url, Connections: appendClients, Streams: streams, Size: 256, Batch: 1, Duration: w.duration,
		})
		if err != nil {
			return 0, err
		}
		return report.AppendsPerSecond, nil
	}
	var lines []line
	for _, streams := range []int{1, 512, 100_000} {
		measured, baseline, err := alternate(3, func() (rate float64, err error) {
			err = w.profiled(ctx, server, fmt.Sprintf("appends-%d", streams), func() error {
				rate, err = load(server.URL, streams)
				return err
			})
			return rate, err
		}, func() (float64, error) { return load(trivial, streams) })
		if err != nil {
			return nil, err
		}
		lines = append(lines, share(fmt.Sprintf("appends to %d streams", streams), "/s", measured, baseline, 0.55))
	}
	return lines, nil
}
