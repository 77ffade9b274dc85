package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/picomq/picomq/internal/process"
)

// How much memory a server may take that reads from the bucket: its caches, and
// what everything else takes.
const (
	cacheDefault = 256 << 20
	// memoryMargin is for what is not cached: the process itself with the state of
	// the rows' streams (some 40 MiB), reads of the bucket under way and answers
	// being written (some 60 MiB at most), and the garbage that a collector leaves
	// until it is due, as much again as what lives.
	memoryMargin = 192 << 20
)

// peak is the most memory that servers were seen to take.
type peak struct {
	mu             sync.Mutex
	resident, heap float64 // bytes
}

// sample looks at a server ten times a second until ctx ends.
func (p *peak) sample(ctx context.Context, s *process.Server) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if m, err := metrics(ctx, s); err == nil {
			p.mu.Lock()
			p.resident = max(p.resident, m["process_resident_memory_bytes"])
			p.heap = max(p.heap, m["go_memstats_heap_inuse_bytes"])
			p.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *peak) line(what string) line {
	p.mu.Lock()
	defer p.mu.Unlock()
	const bound = cacheDefault + memoryMargin
	return line{
		what:     what + ", memory",
		measured: fmt.Sprintf("%.0f MiB (heap %.0f)", p.resident/(1<<20), p.heap/(1<<20)),
		baseline: fmt.Sprintf("%d MiB of cache", cacheDefault>>20),
		ratio:    fmt.Sprintf("%+.0f MiB", (p.resident-cacheDefault)/(1<<20)),
		aim:      fmt.Sprintf("at most +%d MiB", memoryMargin>>20),
		met:      p.resident > 0 && p.resident <= bound,
	}
}

// metrics is what a server counts, by name and labels.
func metrics(ctx context.Context, s *process.Server) (map[string]float64, error) {
	values := make(map[string]float64)
	err := getPage(ctx, s.AdminURL+"/metrics", func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			name, text, ok := strings.Cut(lines.Text(), " ")
			if v, err := strconv.ParseFloat(text, 64); ok && err == nil {
				values[name] = v
			}
		}
		return lines.Err()
	})
	return values, err
}
