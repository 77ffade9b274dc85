package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/picomq/picomq/internal/cli"
	"github.com/picomq/picomq/internal/fsck"
	"github.com/picomq/picomq/sqllog"
)

// exitIncomplete is the exit code of a check that did not come to its end.
const exitIncomplete = 3

// check is what `picomq fsck` is told.
type check struct {
	config
	json bool
	fsck fsck.Config
}

func fsckCommand() *cobra.Command {
	var c check
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Check that log and bucket agree",
		Long: `Check the command log, the bucket, and that they agree: snapshots, archive,
streams, and every segment that streams have records in, byte by byte. What is
wrong is printed, a line each: how bad it is, the object, what it is, what to do.
Nothing is changed without --repair, and tables of an older release are refused. With
it they are migrated, and objects are deleted that provably nothing will ever refer
to; nothing else is touched.

A log in SQLite can be checked while no server has it open. One in Postgres can be
checked beside a running cluster: what happened since the check began is left out,
and --repair is refused while a server of the cluster does maintenance.

Exit codes: 0 when all is well, or was repaired; 1 when something was found; 2
when the command line was not understood; 3 when the check could not be completed.`,
		Example: `  picomq fsck --data /var/lib/picomq
  picomq fsck --meta-url postgres://picomq@db/picomq --storage file:///srv/picomq --quick
  picomq fsck --json | jq -r 'select(.severity == "error") | .object'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(); err != nil {
				return cli.UsageError(err)
			}
			return c.run(cmd)
		},
	}
	f := cmd.Flags()
	c.places(f)
	f.Lookup("storage").Usage = "bucket: file:///PATH (default file:// under --data)"
	f.BoolVar(&c.json, "json", false, "print findings as JSON, one a line, and last {\"summary\": …}")
	f.IntVar(&c.fsck.Parallel, "parallel", fsck.DefaultParallel, "objects read at a time, 1 to 256")
	f.BoolVar(&c.fsck.Quick, "quick", false, "read only the ends of objects: finds what is missing, truncated or foreign, not what is altered inside")
	f.BoolVar(&c.fsck.Deep, "deep", false, "replay the log from its first row, out of the archive, and not from the oldest snapshot")
	f.BoolVar(&c.fsck.Repair, "repair", false, "delete objects that nothing will ever refer to")
	cli.BindEnv(cmd)
	return cmd
}

func (c *check) validate() error {
	if c.data == "" {
		return errors.New("--data is empty: name a folder")
	}
	if c.fsck.Parallel < 1 || c.fsck.Parallel > 256 {
		return fmt.Errorf("--parallel %d: between 1 and 256", c.fsck.Parallel)
	}
	if strings.HasPrefix(c.storage, "mem:") {
		return errors.New("--storage mem://: such a bucket is gone with its server, there is nothing to check")
	}
	return c.fillDefaults()
}

// run checks, and gives what came of it its exit code.
func (c *check) run(cmd *cobra.Command) error {
	report, err := c.check(cmd)
	switch {
	case err != nil && cmd.Context().Err() != nil:
		return cmd.Context().Err() // a signal ended it
	case err != nil:
		return cli.CodedError(exitIncomplete, err)
	case !report.Clean():
		return fmt.Errorf("%d of what was found is left as it is: see the lines above", report.Errors+report.Warnings-report.Repaired)
	default:
		return nil
	}
}

func (c *check) check(cmd *cobra.Command) (report *fsck.Report, err error) {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	if err := c.exists(); err != nil {
		return nil, err
	}
	log, err := sqllog.Open(ctx, c.metaURL, sqllog.Options{ReadOnly: !c.fsck.Repair})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.metaFlag, err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	bucket, err := openBucket(ctx, c.storage)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bar := newStageBar(cmd.ErrOrStderr())
	say := printer(out, c.json)
	c.fsck.Log, c.fsck.Bucket, c.fsck.Progress = log, bucket, bar.show
	c.fsck.Found = func(f fsck.Finding) {
		bar.clear()
		if err := say(f); err != nil {
			cancel(err) // nobody reads what is found
		}
	}
	report, err = fsck.Run(ctx, c.fsck)
	bar.clear()
	if cause := context.Cause(ctx); cause != nil && cmd.Context().Err() == nil {
		return report, cause
	}
	if err != nil {
		return report, err
	}
	return report, say(report)
}

// exists refuses places where nothing is: opening them would make them.
func (c *check) exists() error {
	if path, isFile := strings.CutPrefix(c.metaURL, "sqlite://"); isFile {
		if _, err := os.Stat(filepath.FromSlash(path)); err != nil {
			return fmt.Errorf("%s: there is no log to check: %w", c.metaFlag, err)
		}
	}
	u, err := url.Parse(c.storage)
	if err != nil || u.Scheme != "file" {
		return nil // openBucket says what is wrong
	}
	if _, err := os.Stat(filepath.FromSlash(u.Host + u.Path)); err != nil {
		return fmt.Errorf("--storage: there is no bucket to check: %w", err)
	}
	return nil
}

// orphansTold is how many orphans have a line of their own: a server that was
// killed leaves one or two, a copy of a bucket in use thousands.
const orphansTold = 20

// printer prints findings and, last, the report. Of many orphans it says how many
// there are; as JSON each has its line.
func printer(out io.Writer, asJSON bool) func(any) error {
	encoder, orphans := json.NewEncoder(out), 0
	return func(v any) error {
		finding, isFinding := v.(fsck.Finding)
		isOrphan := isFinding && finding.Kind == fsck.Orphan
		if isOrphan {
			orphans++
		}
		more := orphans - orphansTold
		switch {
		case asJSON && isFinding:
			return encoder.Encode(v)
		case asJSON:
			return encoder.Encode(map[string]any{"summary": v})
		case isOrphan && more > 0:
			return nil
		case !isFinding && more > 0:
			v = fmt.Sprintf("warning: and %d orphans more like these; --json names them\n%v", more, v)
		}
		_, err := fmt.Fprintln(out, v)
		return err
	}
}

// stageBar shows on a terminal how far the check is, and elsewhere nothing.
type stageBar struct {
	out   io.Writer // nil: no terminal
	stage string
	bar   *progressbar.ProgressBar
}

func newStageBar(w io.Writer) *stageBar {
	if file, isFile := w.(*os.File); isFile && term.IsTerminal(int(file.Fd())) {
		return &stageBar{out: w}
	}
	return &stageBar{}
}

// show draws the bar. One that cannot be drawn is no failure.
func (b *stageBar) show(p fsck.Progress) {
	if b.out == nil {
		return
	}
	if b.bar == nil || b.stage != p.Stage {
		b.clear()
		total := int64(p.Total)
		if total == 0 {
			total = -1 // not known
		}
		b.stage = p.Stage
		b.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(b.out),
			progressbar.OptionSetDescription(fmt.Sprintf("%-10s", p.Stage)),
			progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(),
			progressbar.OptionClearOnFinish(),
		)
	}
	_ = b.bar.Set64(int64(min(p.Done, max(p.Total, 1))))
}

// clear takes the bar away, so that a line can be printed.
func (b *stageBar) clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}
