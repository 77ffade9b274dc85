package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"

	"github.com/picomq/picomq/internal/loadgen"
	"github.com/picomq/picomq/stream"
)

// listRow is how long a page of the list takes where there are many names.
var listRow = row{
	name: "list",
	what: "a page of 100 names among a million: one client, at random places",
	run:  runList,
}

// listMilliseconds is the aim.
const listMilliseconds = 1

// listPages are the pages that are asked for, by query.
var listPages = []struct {
	what  string
	query func() string
}{
	{"from a name on", func() string { return "start_after=" + listedName(rand.IntN(million)) }},
	{"below a prefix", func() string { return "prefix=" + url.QueryEscape(fmt.Sprintf("/tenants/%04d/", rand.IntN(997))) }},
	{"below a prefix, from a name on", func() string {
		i := rand.IntN(million)
		return "prefix=" + url.QueryEscape(fmt.Sprintf("/tenants/%04d/", i%997)) + "&start_after=" + listedName(i)
	}},
	{"from the beginning", func() string { return "" }},
	{"at the end", func() string { return "start_after=" + listedName(996+997*(million/997-10)) }},
}

func listedName(i int) string { return url.QueryEscape("/" + string(prefilledName(i))) }

func runList(ctx context.Context, w *world) ([]line, error) {
	dir, err := w.prefilled(ctx, million, stream.Expiry{})
	if err != nil {
		return nil, err
	}
	server, stop, err := w.serveIn(ctx, dir, nil)
	defer stop()
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, page := range listPages {
		var report *loadgen.LoopReport
		err := w.profiled(ctx, server, "list", func() (err error) {
			report, err = loadgen.Loop{
				Endpoint: server.URL, Connections: 1, Duration: w.duration / 2,
				Request: func(dst []byte, _ int64) []byte {
					return fmt.Appendf(dst, "GET /?limit=100&%s HTTP/1.1\r\nHost: perf\r\n\r\n", page.query())
				},
			}.Run(ctx)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, at := range []struct {
			percentile string
			value      float64
		}{{"p50", report.Latency.P50}, {"p99", report.Latency.P99}} {
			lines = append(lines, atMost("list of 100 among a million names, "+page.what+", "+at.percentile, "ms", at.value, listMilliseconds))
		}
	}
	return lines, nil
}
