package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

// appendFlags is how input becomes records.
type appendFlags struct {
	whole, create, close, asJSON, keepNewlines bool
	hasBody                                    bool // body was given, perhaps empty
	body, contentType, producer                string
	headers                                    []string
	batch                                      int
	linger                                     time.Duration
	epoch                                      uint64
}

func appendCommand(s *session) *cobra.Command {
	var f appendFlags
	cmd := &cobra.Command{
		Use:   "append NAME",
		Short: "Append records from standard input",
		Long: `Append records to a stream: every line of standard input is one, without its line
end. Lines are sent in batches, each all or nothing; a line waits for others at
most --linger. In a JSON stream every line is one JSON value, and blank lines
are skipped.

Lines are text, so a stream that --create makes is text/plain unless
--content-type says otherwise; "picomq create" knows nothing of what will come
and makes application/octet-stream.

With --producer an append whose answer was lost is sent again for 30 s and stored
once, even through a restart of the server. Without it, a failure ends the command
and says what is not known.

Durable Streams does not show where records end unless they are JSON: with
--protocol ds other lines are appended one by one and keep their line ends.`,
		Example: `  tail -F access.log | picomq append --create logs/web
  jq -c '.[]' export.json | picomq append --create --content-type application/json data/export
  picomq append notes --body 'one record' --header author=me
  picomq append images/1 --whole --content-type image/png < picture.png`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeName,
		RunE: s.verb(func(cmd *cobra.Command, c *client.Client, name stream.Name, _ []string) error {
			a, err := f.appender(cmd, c, name)
			if err != nil {
				return err
			}
			err = a.run(cmd.Context(), cmd.InOrStdin())
			if a.answered || err == nil {
				a.summarise(cmd.ErrOrStderr())
			}
			return err
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.whole, "whole", false, "append all of standard input as one record")
	flags.StringVar(&f.body, "body", "", "append this as one record and read no input")
	rivalFlags(flags, "whole", "body")
	flags.IntVar(&f.batch, "batch", 256, "lines sent together at most")
	flags.DurationVar(&f.linger, "linger", 5*time.Millisecond, "how long a line waits for others")
	flags.BoolVar(&f.keepNewlines, "keep-newlines", false, "let records end as their lines do")
	flags.BoolVar(&f.create, "create", false, "create the stream if there is none")
	flags.StringVar(&f.contentType, "content-type", "", "type of the stream: to create it with (default text/plain), and to check")
	flags.StringArrayVar(&f.headers, "header", nil, "give every record a header NAME=VALUE; may be repeated")
	flags.StringVar(&f.producer, "producer", "", "name this producer, so that nothing is stored twice")
	flags.Uint64Var(&f.epoch, "producer-epoch", 0, "epoch of the producer; a newer one fences older ones (default: the time in ms)")
	flags.BoolVar(&f.close, "close", false, "close the stream with the last record")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON line for every batch that is acknowledged")
	return cmd
}

// appender sends batches one after the other.
type appender struct {
	flags    *appendFlags
	client   *client.Client
	name     stream.Name
	headers  []stream.Header
	producer *stream.Producer
	out      *json.Encoder // nil without --json

	contentType string // of the stream
	records     int    // acknowledged
	last        client.Appended
	answered    bool // last is set
}

func (f *appendFlags) appender(cmd *cobra.Command, c *client.Client, name stream.Name) (*appender, error) {
	given := cmd.Flags().Changed
	switch {
	case f.whole && given("body"):
		return nil, usagef("--whole and --body exclude each other")
	case f.batch < 1 || f.batch > 1<<16:
		return nil, usagef("--batch is %d; it must be 1 to 65536", f.batch)
	case f.linger < 0:
		return nil, usagef("--linger is %v; it must not be negative", f.linger)
	case given("producer-epoch") && f.producer == "":
		return nil, usagef("--producer-epoch needs --producer")
	}
	f.hasBody = given("body")
	a := &appender{flags: f, client: c, name: name}
	for _, h := range f.headers {
		key, value, found := strings.Cut(h, "=")
		if !found {
			return nil, usagef("--header is %q; write NAME=VALUE", h)
		}
		a.headers = append(a.headers, stream.Header{Name: key, Value: value})
	}
	if f.producer != "" {
		a.producer = &stream.Producer{ID: f.producer, Epoch: f.epoch}
		if !given("producer-epoch") {
			a.producer.Epoch = uint64(time.Now().UnixMilli())
		}
	}
	if f.asJSON {
		a.out = json.NewEncoder(cmd.OutOrStdout())
	}
	if err := a.open(cmd.Context()); err != nil {
		return nil, err
	}
	if !given("batch") && a.unbounded() {
		f.batch = 1
	}
	return a, nil
}

// unbounded tells whether readers will not see where a record ends.
func (a *appender) unbounded() bool {
	return a.client.Protocol() == client.DurableStreams && !stream.IsJSON(a.contentType)
}

// open learns the stream's type, creating the stream if it may.
func (a *appender) open(ctx context.Context) error {
	info, err := a.client.Head(ctx, a.name)
	if stream.CodeOf(err) == stream.CodeNotFound && a.flags.create {
		if a.contentType = a.flags.contentType; a.contentType == "" {
			a.contentType = "text/plain"
		}
		_, err = a.client.Create(ctx, a.name, client.CreateRequest{Config: stream.Config{ContentType: a.contentType}})
		return err
	}
	if stream.CodeOf(err) == stream.CodeNotFound {
		return stream.Errorf(stream.CodeNotFound, "there is no stream %q; create it, or append with --create", a.name)
	}
	if err != nil {
		return err
	}
	a.contentType = info.Config.ContentType
	if want := a.flags.contentType; want != "" && stream.MediaType(want) != stream.MediaType(a.contentType) {
		return fmt.Errorf("the stream %q has type %s, not %s; append without --content-type, or to another stream", a.name, a.contentType, want)
	}
	return nil
}

// run appends all input, and closes the stream if it is asked to.
func (a *appender) run(ctx context.Context, in io.Reader) error {
	switch {
	case a.flags.hasBody:
		return a.append(ctx, [][]byte{[]byte(a.flags.body)}, a.flags.close)
	case a.flags.whole:
		body, err := io.ReadAll(in)
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
		return a.append(ctx, [][]byte{body}, a.flags.close)
	default:
		return a.runLines(ctx, in)
	}
}

func (a *appender) runLines(ctx context.Context, in io.Reader) error {
	b := &batcher{size: a.flags.batch, linger: a.flags.linger, keepNewline: a.flags.keepNewlines || a.unbounded()}
	b.start(in, ctx.Done())
	for {
		next := b.next(ctx.Done())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		lines := next.lines
		if stream.IsJSON(a.contentType) {
			lines = withoutBlank(lines)
		}
		ended := errors.Is(next.err, io.EOF)
		closing := ended && a.flags.close
		if len(lines) > 0 || closing {
			if err := a.append(ctx, lines, closing); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		if next.err != nil {
			return fmt.Errorf("read standard input: %w", next.err)
		}
	}
}

func withoutBlank(lines [][]byte) [][]byte {
	kept := lines[:0]
	for _, l := range lines {
		if len(strings.TrimSpace(string(l))) > 0 {
			kept = append(kept, l)
		}
	}
	return kept
}

// append sends one batch.
func (a *appender) append(ctx context.Context, bodies [][]byte, closing bool) error {
	request := &stream.AppendRequest{ContentType: a.contentType, Close: closing, Producer: a.producer}
	for _, body := range bodies {
		request.Records = append(request.Records, stream.Record{Headers: a.headers, Body: body})
	}
	appended, err := a.client.Append(ctx, a.name, request)
	if err != nil {
		return err
	}
	if a.producer != nil {
		a.producer.Seq++
	}
	a.records += len(bodies)
	a.last, a.answered = appended, true
	if a.out == nil {
		return nil
	}
	return a.out.Encode(acknowledgement(len(bodies), &appended))
}

// acknowledged is a batch as --json prints it.
type acknowledged struct {
	Records    int            `json:"records"`
	First      *stream.Offset `json:"start_seq,omitempty"`
	Next       *stream.Offset `json:"next_seq,omitempty"`
	NextOffset string         `json:"next_offset,omitempty"` // of Durable Streams
	Time       stream.Time    `json:"timestamp,omitempty"`
	Closed     bool           `json:"closed,omitempty"`
	Duplicate  bool           `json:"duplicate,omitempty"`
}

func acknowledgement(records int, a *client.Appended) acknowledged {
	out := acknowledged{Records: records, Time: a.Time, Closed: a.Closed, Duplicate: a.Duplicate}
	if a.FirstKnown {
		out.First = &a.First
	}
	out.Next, out.NextOffset = describeNext(a.Next)
	return out
}

// summarise tells what was acknowledged, also when an error follows.
func (a *appender) summarise(w io.Writer) {
	records := fmt.Sprintf("%d records", a.records)
	if a.records == 1 {
		records = "1 record"
	}
	switch {
	case !a.answered:
		note(w, "appended nothing to %s", a.name)
	case a.last.Closed:
		note(w, "appended %s to %s and closed it at %v", records, a.name, a.last.Next)
	default:
		note(w, "appended %s to %s, next is %v", records, a.name, a.last.Next)
	}
}
