package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/internal/loadgen"
)

func benchCommand(s *session) *cobra.Command {
	var c loadgen.Config
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Put load on a server and measure it",
		Long: `Append to a server as fast as it answers, or at a rate, over many connections,
and report appends and megabytes per second and latency percentiles. With
--readers also follow the streams and report how long records take from being
sent to arriving at a live reader. The streams are created for the run and
deleted after it.

Without --rate every connection waits for its answer before it appends again.
With it appends are due at even intervals, and their latency counts from then,
so that a stalled server is charged for all who had to wait.

--baseline also measures, on this machine and after the load, what one append
costs at least without a server: a file put and synced and one SQLite commit,
one after the other. It is a fair comparison when DIR is on the server's disk.

A signal ends the load early; what was measured is still reported. The exit code
is 1 when an append or a live reader failed, which the report counts.`,
		Example: `  picomq bench
  picomq bench --connections 256 --streams 10000 --size 1000 --readers 64
  picomq bench --rate 5000 --duration 1m --json > result.json
  picomq bench --baseline=/var/lib/picomq`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			protocol, err := client.ParseProtocol(s.protocol)
			if err != nil {
				return usagef("--protocol: %w", err)
			}
			c.Endpoint, c.Protocol = s.url(), protocol
			if err := c.Validate(); err != nil {
				return UsageError(err)
			}
			return bench(cmd, c, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&c.Connections, "connections", 64, "connections that append")
	flags.IntVar(&c.Streams, "streams", 64, "streams written in turn")
	flags.IntVar(&c.Size, "size", 100, fmt.Sprintf("bytes of a record, at least %d", loadgen.MinSize))
	flags.IntVar(&c.Batch, "batch", 1, "records of an append")
	flags.DurationVar(&c.Duration, "duration", 10*time.Second, "how long to append")
	flags.Float64Var(&c.Rate, "rate", 0, "appends per second in total (0: as fast as answers come)")
	flags.IntVar(&c.Readers, "readers", 0, "live readers, spread over the streams")
	flags.StringVar(&c.Prefix, "prefix", "", "names of the streams begin with this (default: bench/ and a random name)")
	flags.StringVar(&c.Baseline, "baseline", "", "also measure a bare put+fsync+SQLite commit in `DIR`")
	flags.Lookup("baseline").NoOptDefVal = os.TempDir()
	flags.BoolVar(&asJSON, "json", false, "print the report as a JSON object")
	return cmd
}

func bench(cmd *cobra.Command, c loadgen.Config, asJSON bool) error {
	progress, end := showProgress(cmd.ErrOrStderr(), c.Duration)
	c.Progress = progress
	report, err := loadgen.Run(cmd.Context(), c)
	end()
	if err != nil {
		return err
	}
	if report.Appends == 0 && cmd.Context().Err() != nil {
		return context.Canceled // nothing was measured
	}
	if err := printReport(cmd.OutOrStdout(), report, asJSON); err != nil {
		return err
	}
	return report.Failed() // it was measured, and a script must hear of it
}

func printReport(w io.Writer, report *loadgen.Report, asJSON bool) error {
	if !asJSON {
		return report.Write(w)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// showProgress draws a bar on a terminal, and elsewhere says nothing.
func showProgress(w io.Writer, d time.Duration) (progress func(loadgen.Progress), end func()) {
	file, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions64(d.Milliseconds(),
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionClearOnFinish(),
	)
	var before loadgen.Progress
	progress = func(p loadgen.Progress) {
		rate := float64(p.Appends-before.Appends) / (p.Elapsed - before.Elapsed).Seconds()
		before = p
		bar.Describe(fmt.Sprintf("%8.0f appends/s", rate))
		_ = bar.Set64(min(p.Elapsed, d-time.Millisecond).Milliseconds()) // a bar that cannot be drawn is no failure
	}
	return progress, func() { _ = bar.Finish() } // the same
}
