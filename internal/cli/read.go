package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

// withoutBounds is what the verbs that print records say about Durable Streams.
const withoutBounds = `Durable Streams does not show where records end unless they are JSON: with
--protocol ds other records come end to end, without separators.`

func readCommand(s *session) *cobra.Command {
	var from, format string
	var timestamp int64
	var count int
	cmd := &cobra.Command{
		Use:   "read NAME",
		Short: "Print the records of a stream",
		Long: `Print the records of a stream from a position to its present end.

A position is a sequence, "start" for the first record that is retained, "now",
or -N for N records before the end. A sequence is exact: it is an error when its
record was trimmed away. With --protocol ds a position may be an offset as that
protocol prints it.

` + withoutBounds,
		Example: `  picomq read logs/api
  picomq read logs/api --from 1000 --count 10 --format json
  picomq read logs/api --timestamp $(date -d '1 hour ago' +%s000)`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeName,
		RunE: s.verb(func(cmd *cobra.Command, c *client.Client, name stream.Name, _ []string) error {
			position, err := parsePosition("from", from)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("timestamp") {
				if cmd.Flags().Changed("from") {
					return usagef("--from and --timestamp exclude each other")
				}
				position = client.Since(stream.Time(timestamp))
			}
			if count < 0 || timestamp < 0 {
				return usagef("--count and --timestamp must not be negative")
			}
			printer, err := newRecordPrinter(cmd.OutOrStdout(), format)
			if err != nil {
				return err
			}
			return readAll(cmd, c, name, position, count, printer)
		}),
	}
	cmd.Flags().StringVar(&from, "from", "start", "position to begin at: a sequence, start, now, or -N")
	cmd.Flags().Int64Var(&timestamp, "timestamp", 0, "begin with the first record at or after this Unix time in milliseconds")
	rivalFlags(cmd.Flags(), "from", "timestamp")
	cmd.Flags().IntVar(&count, "count", 0, "print at most so many records (0: all)")
	formatFlag(cmd, &format)
	return cmd
}

func formatFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVar(format, "format", "lines", "lines: each record and a newline; json: one object a line; raw: bodies end to end")
	completeValues(cmd, "format", formatNames...)
}

// readAll prints what exists from a position on, at most count records unless
// that is 0.
func readAll(cmd *cobra.Command, c *client.Client, name stream.Name, from client.Position, count int, printer *recordPrinter) error {
	const bytesAtOnce = 1 << 20
	for left := count; ; {
		chunk, err := c.Read(cmd.Context(), name, client.ReadRequest{From: from, MaxRecords: left, MaxBytes: bytesAtOnce})
		if err != nil {
			return err
		}
		if count > 0 && len(chunk.Records) > left { // Durable Streams has no cap
			chunk.Records = chunk.Records[:left]
		}
		if err := printer.print(chunk); err != nil {
			return err
		}
		left -= len(chunk.Records)
		if chunk.UpToDate || (count > 0 && left == 0) || chunk.Next == from {
			return nil
		}
		from = chunk.Next
	}
}

// parsePosition reads the value of a flag that is a position.
func parsePosition(flag, text string) (client.Position, error) {
	switch text {
	case "start":
		return client.Start(), nil
	case "now":
		return client.Now(), nil
	}
	if n, err := strconv.ParseUint(strings.TrimPrefix(text, "-"), 10, 64); err == nil {
		if strings.HasPrefix(text, "-") {
			return client.Back(n), nil
		}
		return client.At(stream.Offset(n)), nil
	}
	if token := client.Token(text); isToken(token) {
		return token, nil
	}
	return client.Position{}, usagef("--%s is %q; give a sequence, start, now, or -N", flag, text)
}

// isToken tells whether a position of another form can be one of Durable
// Streams, which only its server knows: it must at least fit into a query.
func isToken(p client.Position) bool {
	text := p.String()
	return text != "" && !strings.ContainsAny(text, ",&=?/ \x00\r\n") && strings.ContainsAny(text, "0123456789_")
}

func tailCommand(s *session) *cobra.Command {
	var from, format, live string
	var lines uint64
	var follow bool
	cmd := &cobra.Command{
		Use:   "tail NAME",
		Short: "Print the last records of a stream, and follow it",
		Long: `Print the last records of a stream. With -f go on printing what is appended,
until the stream is closed or a signal ends it. Following survives a restart of
the server: it goes on behind the last record printed, without gap or repeat.
It also ends, within about a second, when its output is read no more.

` + withoutBounds,
		Example: `  picomq tail logs/api
  picomq tail -f logs/api
  picomq tail -f -n 0 --format json logs/api
  picomq tail -f --from start logs/api > copy`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeName,
		RunE: s.verb(func(cmd *cobra.Command, c *client.Client, name stream.Name, _ []string) error {
			position := client.Back(lines)
			if cmd.Flags().Changed("from") {
				if cmd.Flags().Changed("lines") {
					return usagef("--from and --lines exclude each other")
				}
				var err error
				if position, err = parsePosition("from", from); err != nil {
					return err
				}
			}
			printer, err := newRecordPrinter(cmd.OutOrStdout(), format)
			if err != nil {
				return err
			}
			way, err := parseLive(live)
			if err != nil {
				return err
			}
			if !follow {
				return readAll(cmd, c, name, position, 0, printer)
			}
			return followAll(cmd, c, name, client.TailRequest{From: position, Live: way}, printer)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is appended")
	cmd.Flags().Uint64VarP(&lines, "lines", "n", 10, "begin so many records before the end")
	cmd.Flags().StringVar(&from, "from", "", "begin at a sequence, start, now, or -N (instead of --lines)")
	rivalFlags(cmd.Flags(), "from", "lines")
	cmd.Flags().StringVar(&live, "live", "auto", "how to follow: sse, long-poll, or auto")
	completeValues(cmd, "live", "auto", "sse", "long-poll")
	formatFlag(cmd, &format)
	return cmd
}

// followAll prints what exists from a position on and what comes, for as long
// as somebody reads it.
func followAll(cmd *cobra.Command, c *client.Client, name stream.Name, r client.TailRequest, printer *recordPrinter) error {
	ctx, stop := whileRead(cmd.Context(), cmd.OutOrStdout())
	defer stop()
	for chunk, err := range c.Tail(ctx, name, r) {
		if err != nil && isReaderGone(context.Cause(ctx)) {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if err := printer.print(chunk); err != nil {
			return err
		}
	}
	return nil
}

func parseLive(name string) (client.Live, error) {
	switch name {
	case "auto":
		return client.LiveDefault, nil
	case "sse":
		return client.LiveEvents, nil
	case "long-poll":
		return client.LivePoll, nil
	default:
		return client.LiveDefault, usagef("--live is %q; use sse, long-poll or auto", name)
	}
}
