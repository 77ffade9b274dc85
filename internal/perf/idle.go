package main

import (
	"bufio"
	"context"
	"errors"
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
	bare, server, followed, err := w.followed(ctx, "idle")
	if err != nil {
		return nil, err
	}
	nothing := func() error { return nil }
	measured, err := growth(ctx, followed, server.AdminURL, func() error { return w.snapshot(ctx, server) })
	if err != nil {
		return nil, err
	}
	baseline, err := growth(ctx, &feed{url: bare, follow: "/"}, bare, nothing)
	if err != nil {
		return nil, err
	}
	more := measured.sum() - baseline.sum()
	return []line{{
		what: "memory of an idle event stream", measured: measured.String(), baseline: baseline.String(),
		ratio: fmt.Sprintf("%+.2f KiB", more/1024), aim: "at most +6 KiB", met: more <= 6<<10,
	}}, nil
}

// memory is what a process holds, or each of its readers, in bytes.
type memory struct{ heap, stacks float64 }

func (m memory) sum() float64 { return m.heap + m.stacks }

func (m memory) String() string {
	return fmt.Sprintf("%s (heap %.1f, stacks %.1f)", figure(m.sum()/1024, "KiB"), m.heap/1024, m.stacks/1024)
}

// growth is what a process holds more for each of many idle readers.
func growth(ctx context.Context, f *feed, pprofURL string, during func() error) (memory, error) {
	before, err := memoryOf(ctx, pprofURL)
	if err != nil {
		return memory{}, err
	}
	crowd, err := gather(ctx, f, idleReaders)
	if err != nil {
		return memory{}, err
	}
	defer crowd.disperse()
	after, err := memoryOf(ctx, pprofURL)
	if err != nil {
		return memory{}, err
	}
	return memory{(after.heap - before.heap) / idleReaders, (after.stacks - before.stacks) / idleReaders}, during()
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

// memoryOf is the live heap and the stacks of a process after it has collected
// its garbage. Stacks that have become too large shrink to half with each
// collection.
func memoryOf(ctx context.Context, pprofURL string) (m memory, err error) {
	for range 4 {
		if m, err = collectedMemory(ctx, pprofURL); err != nil {
			return m, err
		}
	}
	return m, nil
}

func collectedMemory(ctx context.Context, pprofURL string) (m memory, err error) {
	err = getPage(ctx, pprofURL+"/debug/pprof/heap?gc=1&debug=1", func(body io.Reader) error {
		m, err = readMemory(body)
		return err
	})
	return m, err
}

// readMemory finds the two figures at the end of a heap profile in text.
func readMemory(r io.Reader) (m memory, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		for format, to := range map[string]*float64{"# HeapAlloc = %f": &m.heap, "# Stack = %f": &m.stacks} {
			_, _ = fmt.Sscanf(lines.Text(), format, to) // most lines say something else
		}
	}
	if err := lines.Err(); err != nil {
		return m, err
	}
	if m.heap == 0 || m.stacks == 0 {
		return m, errors.New("the heap profile does not say how large heap and stacks are")
	}
	return m, nil
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
