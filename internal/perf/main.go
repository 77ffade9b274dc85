package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

// rows are what there is to measure, in the order of the table.
var rows = []row{
	appendsRow,
	loneRow, loneSlowRow, appendsSlowRow,
	sse1000Row, sse10000Row, idleRow,
	ingestBinaryRow, ingestJSONRow,
	stateRow, createsRow, listRow, flatRow, restRow,
	catchUpFewRow, catchUpManyRow,
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == handlerArgument {
		serveBaseline(os.Args[2:])
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pattern := flag.String("rows", ".", "measure the rows whose name matches this regular expression")
	duration := flag.Duration("duration", 5*time.Second, "how long each load lasts")
	profiles := flag.String("profile", "", "write CPU, allocation, block and mutex profiles of the servers into this `folder`")
	binary := flag.String("binary", "", "measure this `picomq`, built with the tag failpoint, and build none")
	list := flag.Bool("list", false, "print the rows and end")
	flag.Parse()
	selected, err := choose(*pattern)
	if err != nil {
		return err
	}
	if *list {
		for _, r := range selected {
			fmt.Printf("%-18s %s\n", r.name, r.what)
		}
		return nil
	}
	w, err := newWorld(ctx, *duration, *profiles, *binary)
	if err != nil {
		return err
	}
	defer w.close()
	headed := false
	for _, r := range selected {
		fmt.Fprintf(os.Stderr, "measuring %s: %s\n", r.name, r.what)
		lines, err := r.run(ctx, w)
		w.stopServers()
		if err != nil {
			return fmt.Errorf("row %s: %w", r.name, err)
		}
		if !headed && len(lines) > 0 { // not before what is said while building
			printHead(os.Stdout)
			headed = true
		}
		for _, l := range lines {
			l.print(os.Stdout)
		}
	}
	return nil
}

func choose(pattern string) ([]row, error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-rows: %w", err)
	}
	var selected []row
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
		if match.MatchString(r.name) {
			selected = append(selected, r)
		}
	}
	if selected == nil {
		return nil, fmt.Errorf("-rows %s matches none of: %s", pattern, strings.Join(names, ", "))
	}
	return selected, nil
}
