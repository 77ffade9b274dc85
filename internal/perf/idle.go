package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/picomq/picomq/internal/process"
)

// idleRow is what an event stream takes in memory on which nothing happens.
var idleRow = row{
	name: "sse-idle",
	what: "live heap and stacks of an idle event stream, beside a handler that writes one event and waits",
	run:  runIdle,
}

const idleReaders = 5_000

func runIdle(ctx context.Context, w *world) ([]line, error) {
	bare, err := w.baseline(ctx, "idle")
	if err != nil {
		return nil, err
	}
	server, err := w.serve(ctx, nil, "--sse-max-duration", "10m")
	if err != nil {
		return nil, err
	}
	followed, err := newFeed(ctx, server)
	if err != nil {
		return nil, err
	}
	measured, baseline, err := alternate(3, func() (each float64, err error) {
		return growth(ctx, followed, server.AdminURL, func() error { return w.snapshot(ctx, server) })
	}, func() (float64, error) {
		return growth(ctx, &feed{url: bare, follow: "/"}, bare, func() error { return nil })
	})
	if err != nil {
		return nil, err
	}
	more := measured - baseline
	return []line{{
		what: "memory of an idle event stream", measured: figure(measured/1024, "KiB"), baseline: figure(baseline/1024, "KiB"),
		ratio: fmt.Sprintf("%+.2f KiB", more/1024), aim: "at most +6 KiB", met: more <= 6<<10,
	}}, nil
}

// growth is how many bytes more a process holds for each of many idle readers.
func growth(ctx context.Context, f *feed, pprofURL string, during func() error) (float64, error) {
	before, err := memoryOf(ctx, pprofURL)
	if err != nil {
		return 0, err
	}
	crowd, err := gather(ctx, f, idleReaders)
	if err != nil {
		return 0, err
	}
	defer crowd.disperse()
	after, err := memoryOf(ctx, pprofURL)
	if err != nil {
		return 0, err
	}
	return (after - before) / idleReaders, during()
}

// snapshot keeps what is on the heap and what all goroutines wait for, if
// profiles were asked for.
func (w *world) snapshot(ctx context.Context, s *process.Server) error {
	if w.profiles == "" {
		return nil
	}
	if err := w.fetch(ctx, s.AdminURL+"/debug/pprof/heap", "sse-idle.heap"); err != nil {
		return err
	}
	return w.fetch(ctx, s.AdminURL+"/debug/pprof/goroutine", "sse-idle.goroutine")
}

// memoryOf is the live heap and the stacks of a process, in bytes, after it has
// collected its garbage. Stacks that have become too large shrink to half with
// each collection.
func memoryOf(ctx context.Context, pprofURL string) (bytes float64, err error) {
	for range 4 {
		if bytes, err = collectedMemory(ctx, pprofURL); err != nil {
			return 0, err
		}
	}
	return bytes, nil
}

func collectedMemory(ctx context.Context, pprofURL string) (bytes float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, pprofURL+"/debug/pprof/heap?gc=1&debug=1", http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	return readMemory(answer.Body)
}

// readMemory finds the two figures at the end of a heap profile in text.
func readMemory(r io.Reader) (bytes float64, err error) {
	found := 0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var n float64
		for _, format := range []string{"# HeapAlloc = %f", "# Stack = %f"} {
			if _, err := fmt.Sscanf(lines.Text(), format, &n); err == nil {
				bytes += n
				found++
			}
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if found != 2 {
		return 0, fmt.Errorf("the heap profile does not say how large heap and stacks are")
	}
	return bytes, nil
}

// serveIdle is an event stream on which nothing happens.
func serveIdle(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/debug/pprof/") {
		pprof.Handler("heap").ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if _, err := io.WriteString(w, "event: control\ndata:{}\n\n"); err != nil {
		return
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	<-r.Context().Done()
}
