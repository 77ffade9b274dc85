package main

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/picomq/picomq/internal/loadgen"
)

// createsRow is how fast streams are made, beside a handler that makes nothing.
var createsRow = row{
	name: "creates",
	what: "creates a second: 64 closed-loop clients, each PUTs a new name",
	run:  runCreates,
}

const (
	createClients = 64
	createShare   = 0.5 // the aim: of the trivial handler
)

func runCreates(ctx context.Context, w *world) ([]line, error) {
	trivial, err := w.baseline(ctx, "discard")
	if err != nil {
		return nil, err
	}
	server, err := w.serve(ctx, nil)
	if err != nil {
		return nil, err
	}
	var made atomic.Int64 // names, so that each is new
	load := func(url string) (float64, error) {
		report, err := loadgen.Loop{
			Endpoint: url, Connections: createClients, Duration: w.duration,
			Request: func(dst []byte, _ int64) []byte {
				dst = strconv.AppendInt(append(dst, "PUT /tenants/"...), made.Add(1), 10)
				return append(dst, "/events HTTP/1.1\r\nHost: perf\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n"...)
			},
		}.Run(ctx)
		if err != nil {
			return 0, err
		}
		return report.PerSecond, nil
	}
	measured, baseline, err := alternate(3, func() (rate float64, err error) {
		err = w.profiled(ctx, server, "creates", func() error {
			rate, err = load(server.URL)
			return err
		})
		return rate, err
	}, func() (float64, error) { return load(trivial) })
	if err != nil {
		return nil, err
	}
	return []line{share("creates", "/s", measured, baseline, createShare)}, nil
}
