package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/internal/loadgen"
	"github.com/picomq/picomq/stream"
)

// flatRow is what a stream's requests cost with others beside it.
var flatRow = row{
	name: "flat",
	what: "one stream's append, read, head and list (p50 of one client) with 1, 1,000, a million beside it",
	run:  runFlat,
}

// flatTimes is the aim: what a cost with others beside it may be of the cost with
// one. It is none, as far as it can be told from noise.
const flatTimes = 1.2

// flatRounds is how often each server has its turn.
const flatRounds = 9

// flatListed is how many streams the page has that is listed.
const flatListed = 100

// flatRequests are what is measured. Reads are from memory, since it was written
// a moment ago.
var flatRequests = []struct{ what, request string }{
	{"append", "POST /measured/appended HTTP/1.1\r\nHost: perf\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"},
	{"read", "GET /measured/read HTTP/1.1\r\nHost: perf\r\n\r\n"},
	{"head", "HEAD /measured/read HTTP/1.1\r\nHost: perf\r\n\r\n"},
	{"list of 100", "GET /?prefix=%2Fmeasured%2Flisted%2F&limit=100 HTTP/1.1\r\nHost: perf\r\n\r\n"},
}

func runFlat(ctx context.Context, w *world) ([]line, error) {
	besides := []int{1, 1000, million}
	urls := make([]string, len(besides))
	for i, streams := range besides {
		dir, err := w.prefilled(ctx, streams, stream.Expiry{})
		if err != nil {
			return nil, err
		}
		server, stop, err := w.serveIn(ctx, dir, nil)
		defer stop()
		if err != nil {
			return nil, err
		}
		urls[i] = server.URL
		if err := makeMeasured(ctx, server.URL); err != nil {
			return nil, err
		}
	}
	var lines []line
	for _, r := range flatRequests {
		medians, err := takeTurns(flatRounds, urls, func(url string) (float64, error) {
			report, err := loadgen.Loop{
				Endpoint: url, Connections: 1, Duration: w.duration / 20,
				Request: func(dst []byte, _ int64) []byte { return append(dst, r.request...) },
			}.Run(ctx)
			if err != nil {
				return 0, err
			}
			return 1000 * report.Latency.P50, nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.what, err)
		}
		for i := 1; i < len(besides); i++ {
			what := fmt.Sprintf("%s with %d streams beside it, p50, to one", r.what, besides[i])
			lines = append(lines, times(what, "µs", medians[i], medians[0], flatTimes))
		}
	}
	return lines, nil
}

// takeTurns measures several servers in turn and returns the median of each.
func takeTurns(rounds int, urls []string, measure func(url string) (float64, error)) ([]float64, error) {
	values := make([][]float64, len(urls))
	for range rounds {
		for i, url := range urls {
			v, err := measure(url)
			if err != nil {
				return nil, err
			}
			values[i] = append(values[i], v)
		}
	}
	medians := make([]float64, len(urls))
	for i := range values {
		medians[i] = median(values[i])
	}
	return medians, nil
}

// makeMeasured makes the streams that requests are about.
func makeMeasured(ctx context.Context, url string) error {
	c, err := client.New(url, client.Options{})
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	create := func(name stream.Name, body []byte) error {
		_, err := c.Create(ctx, name, client.CreateRequest{Config: stream.Config{ContentType: "text/plain"}, Body: body})
		return err
	}
	err = errors.Join(create("measured/appended", nil), create("measured/read", []byte("hello")))
	for i := range flatListed {
		err = errors.Join(err, create(stream.Name(fmt.Sprintf("measured/listed/%03d", i)), nil))
	}
	return err
}
