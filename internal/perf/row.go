package main

import (
	"context"
	"fmt"
	"io"
)

// row is one thing that is measured.
type row struct {
	name string // short, for -rows
	what string // a sentence
	run  func(ctx context.Context, w *world) ([]line, error)
}

// line is one line of the table.
type line struct {
	what     string
	measured string // with its unit
	baseline string // likewise; empty where the aim is absolute
	ratio    string // measured to baseline, or their difference
	aim      string
	met      bool
}

func printHead(w io.Writer) {
	fmt.Fprint(w, "| what | measured | baseline | difference or ratio | aim | |\n| --- | --- | --- | --- | --- | --- |\n")
}

func (l line) print(w io.Writer) {
	verdict := "missed"
	switch {
	case l.aim == "":
		verdict = ""
	case l.met:
		verdict = "met"
	}
	fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", l.what, l.measured, l.baseline, l.ratio, l.aim, verdict)
}

// share is a line whose aim is a least share of its baseline's rate.
func share(what, unit string, measured, baseline, least float64) line {
	ratio := measured / baseline
	return line{
		what: what, measured: figure(measured, unit), baseline: figure(baseline, unit), ratio: fmt.Sprintf("%.0f %%", 100*ratio),
		aim: fmt.Sprintf("at least %.0f %%", 100*least), met: ratio >= least,
	}
}

// times is a line whose aim is at most so many times its baseline.
func times(what, unit string, measured, baseline, most float64) line {
	l := beside(what, unit, measured, baseline)
	l.aim, l.met = fmt.Sprintf("at most %.3g ×", most), measured <= most*baseline
	return l
}

// atMost is a line whose aim is a figure of its own.
func atMost(what, unit string, measured, most float64) line {
	return line{what: what, measured: figure(measured, unit), aim: "at most " + figure(most, unit), met: measured <= most}
}

// atLeast is the same of a rate.
func atLeast(what, unit string, measured, least float64) line {
	return line{what: what, measured: figure(measured, unit), aim: "at least " + figure(least, unit), met: measured >= least}
}

// beside is a line that aims at nothing.
func beside(what, unit string, measured, baseline float64) line {
	return line{
		what: what, measured: figure(measured, unit), baseline: figure(baseline, unit), ratio: fmt.Sprintf("%.2f ×", measured/baseline),
	}
}

// figure prints a number with three significant digits or all before the point.
func figure(v float64, unit string) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f %s", v, unit)
	case v >= 100:
		return fmt.Sprintf("%.0f %s", v, unit)
	case v >= 10:
		return fmt.Sprintf("%.1f %s", v, unit)
	default:
		return fmt.Sprintf("%.2f %s", v, unit)
	}
}
