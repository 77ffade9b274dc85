package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// stateRow is the state machine beside the budgets that it is held to, as the Go
// benchmarks of its package measure them: in memory, alone, with a million
// streams.
var stateRow = row{
	name: "state",
	what: "the state machine with a million streams: its Go benchmarks, beside its budgets",
	run:  runState,
}

const statePackage = "github.com/picomq/picomq/statemachine"

// budget is what one metric of a benchmark is held to.
type budget struct {
	benchmark string // with those below it: its name up to the number of processors
	unit      string // as the benchmark reports it
	what      string
	make      func(what, unit string, measured, aim float64) line
	aim       float64
	shown     string  // unit of the line
	scale     float64 // of the aim and the line to what is reported
}

var budgets = []budget{
	{"BenchmarkApply/producers=false", "appends/s", "appends applied, with decode, results and digest", atLeast, 500_000, "/s", 1},
	{"BenchmarkApply/producers=true", "appends/s", "the same with producers", atLeast, 250_000, "/s", 1},
	{"BenchmarkHeap", "B/stream", "live heap of an idle stream (40-byte name, one extent)", atMost, 250, "B", 1},
	{"BenchmarkHeap", "B/extent", "a further extent", atMost, 24, "B", 1},
	{"BenchmarkHeap", "B/producer", "a producer", atMost, 64, "B", 1},
	{"BenchmarkRead", "p99.9-µs", "a reader while entries are applied, p99.9", atMost, 1, "ms", 1000},
	{"BenchmarkSnapshotStall", "stall-p99-µs", "1,000 appends during a snapshot, p99, above the p99 without", atMost, 5, "ms", 1000},
	{"BenchmarkRestore", "ns/op", "restoring a million streams", atMost, 3, "s", 1e9},
}

func runState(ctx context.Context, _ *world) ([]line, error) {
	out, err := goBenchmarks(ctx, statePackage, "^(BenchmarkApply|BenchmarkHeap|BenchmarkRead|BenchmarkSnapshotStall|BenchmarkRestore)$")
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, b := range budgets {
		value, ok := out[b.benchmark][b.unit]
		if !ok {
			return nil, fmt.Errorf("%s did not report %s", b.benchmark, b.unit)
		}
		lines = append(lines, b.make(b.what, b.shown, value/b.scale, b.aim))
	}
	return lines, nil
}

// goBenchmarks runs benchmarks of a package and returns what they report, by name
// and unit.
func goBenchmarks(ctx context.Context, pkg, pattern string) (map[string]map[string]float64, error) {
	run := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchtime", "2s", pkg)
	out, err := run.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("benchmarks of %s: %w\n%s", pkg, err, out)
	}
	all := make(map[string]map[string]float64)
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // name, iterations, then values and units
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := fields[0]
		if at := strings.LastIndexByte(name, '-'); at > 0 {
			name = name[:at]
		}
		all[name] = make(map[string]float64)
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("a line of %s: %q", pkg, lines.Text())
			}
			all[name][fields[i+1]] = value
		}
	}
	return all, nil
}
