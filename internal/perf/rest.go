package main

import (
	"context"
	"fmt"
	"time"

	"github.com/picomq/picomq/internal/process"
	"github.com/picomq/picomq/stream"
)

// restRow is what streams cost that nobody uses: the server's maintenance looks
// for what is due, too old or worth rewriting.
var restRow = row{
	name: "rest",
	what: "CPU of a server that nobody uses, with one stream and with a million",
	run:  runRest,
}

const (
	// restMilliseconds is the aim: what a million streams add, in milliseconds of
	// CPU a second.
	restMilliseconds = 1
	// restFor is how long a server is watched: maintenance moves time every 10 s
	// and looks at retention as often.
	restFor = 20 * time.Second
	// settleFor is how long a start is given to end.
	settleFor = 12 * time.Second
)

// restCases are what the streams of a server have that may come to be due.
var restCases = []struct {
	what    string
	streams int
	expiry  stream.Expiry
	args    []string
}{
	{"one stream", 1, stream.Expiry{}, nil},
	{"a million streams", million, stream.Expiry{}, nil},
	{"a million that are kept for a month", million, stream.Expiry{}, []string{"--retention-age", "30d"}},
	{"a million that expire after a month", million, stream.Expiry{Kind: stream.ExpiresIdle, TTL: 30 * 24 * 3600}, nil},
}

func runRest(ctx context.Context, w *world) ([]line, error) {
	var lines []line
	var one float64
	for i, c := range restCases {
		cost, err := w.restOf(ctx, c.streams, c.expiry, c.args)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			one = cost
			continue
		}
		lines = append(lines, line{
			what: "CPU of " + c.what + " at rest, beside one", measured: figure(cost, "ms/s"), baseline: figure(one, "ms/s"),
			ratio: fmt.Sprintf("%+.2f ms/s", cost-one), aim: fmt.Sprintf("at most +%d ms/s", restMilliseconds), met: cost <= one+restMilliseconds,
		})
	}
	return lines, nil
}

// restOf is the CPU that a server on some streams takes at rest, in milliseconds
// a second.
func (w *world) restOf(ctx context.Context, streams int, expiry stream.Expiry, args []string) (float64, error) {
	dir, err := w.prefilled(ctx, streams, expiry)
	if err != nil {
		return 0, err
	}
	server, stop, err := w.serveIn(ctx, dir, nil, args...)
	defer stop()
	if err != nil {
		return 0, err
	}
	var at [2]float64
	for i, pause := range []time.Duration{settleFor, restFor} {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
		if at[i], err = cpuSeconds(ctx, server); err != nil {
			return 0, err
		}
	}
	return 1000 * (at[1] - at[0]) / restFor.Seconds(), nil
}

// cpuSeconds is what a server's process has taken, as its metrics say.
func cpuSeconds(ctx context.Context, server *process.Server) (float64, error) {
	const name = "process_cpu_seconds_total"
	values, err := metrics(ctx, server)
	if err != nil {
		return 0, err
	}
	seconds, ok := values[name]
	if !ok {
		return 0, fmt.Errorf("%s/metrics does not have %s", server.AdminURL, name)
	}
	return seconds, nil
}
