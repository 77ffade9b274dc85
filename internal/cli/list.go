package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

// pageSize is how many streams are asked for at once.
const pageSize = 1000

func listCommand(s *session) *cobra.Command {
	var long, asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:     "ls [PREFIX]",
		Aliases: []string{"list"},
		Short:   "List streams",
		Long: `List the streams whose names begin with a prefix, in byte order, one a line.
A prefix is any beginning of a name, not only a whole segment.`,
		Example: `  picomq ls
  picomq ls -l logs/
  picomq ls --json | jq .next_seq`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: s.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--limit is %d; it must not be negative", limit)
			}
			prefix := ""
			if len(args) > 0 {
				prefix = strings.TrimPrefix(args[0], "/")
			}
			c, err := s.connect(cmd)
			if err != nil {
				return err
			}
			defer c.CloseIdleConnections()
			out := bufio.NewWriter(cmd.OutOrStdout())
			if err := list(cmd, c, prefix, limit, printerOf(out, long, asJSON)); err != nil {
				return err
			}
			return out.Flush()
		},
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "show type, first and next sequence, state and expiry")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.Flags().IntVar(&limit, "limit", 0, "list at most so many (0: all)")
	return cmd
}

// list prints page after page, so that memory holds one.
func list(cmd *cobra.Command, c *client.Client, prefix string, limit int, print func([]client.Info) error) error {
	var after stream.Name
	for printed := 0; ; {
		size := pageSize
		if limit > 0 {
			size = min(size, limit-printed)
		}
		page, err := c.List(cmd.Context(), prefix, after, size)
		if err != nil {
			return err
		}
		if err := print(page.Streams); err != nil {
			return err
		}
		printed += len(page.Streams)
		if !page.More || len(page.Streams) == 0 || printed == limit {
			return nil
		}
		after = page.Streams[len(page.Streams)-1].Name
	}
}

// printerOf prints pages in the form that the flags ask for.
func printerOf(w io.Writer, long, asJSON bool) func([]client.Info) error {
	switch {
	case asJSON:
		encoder := jsonLines(w)
		return func(page []client.Info) error {
			for i := range page {
				if err := encoder.Encode(describe(&page[i])); err != nil {
					return err
				}
			}
			return nil
		}
	case long:
		header := "NAME\tTYPE\tSTART\tNEXT\tSTATE\tEXPIRES\n"
		return func(page []client.Info) error {
			table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fmt.Fprint(table, header)
			header = ""
			for _, i := range page {
				fmt.Fprintf(table, "%s\t%s\t%d\t%v\t%s\t%s\n", i.Name, i.Config.ContentType, i.Start, i.Next, state(i.Closed), expiryText(i.Config.Expiry))
			}
			return table.Flush()
		}
	default:
		return func(page []client.Info) error {
			for _, i := range page {
				if _, err := fmt.Fprintln(w, i.Name); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

// jsonLines writes JSON, one value a line.
func jsonLines(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder
}

func state(closed bool) string {
	if closed {
		return "closed"
	}
	return "open"
}

// description is a stream as JSON.
type description struct {
	Name        stream.Name    `json:"name"`
	ContentType string         `json:"content_type"`
	Start       *stream.Offset `json:"start_seq,omitempty"`
	Next        *stream.Offset `json:"next_seq,omitempty"`
	NextOffset  string         `json:"next_offset,omitempty"` // with Durable Streams
	Closed      bool           `json:"closed"`
	TTL         *uint64        `json:"ttl,omitempty"`
	ExpiresAt   string         `json:"expires_at,omitempty"`
	KeepAge     uint64         `json:"retention_age,omitempty"` // seconds
	KeepBytes   uint64         `json:"retention_bytes,omitempty"`
	Fork        *origin        `json:"fork,omitempty"`
	Forks       uint64         `json:"live_forks,omitempty"`
}

// origin is how a fork began, as JSON.
type origin struct {
	From stream.Name   `json:"from"`
	Seq  stream.Offset `json:"seq"`
	Sub  uint64        `json:"sub_offset,omitempty"`
}

// describeNext is a position as JSON has it: its number, and its token if it is
// one of Durable Streams.
func describeNext(p client.Position) (next *stream.Offset, token string) {
	o, known := p.Offset()
	if known {
		next = &o
	}
	if p != client.At(o) {
		token = p.String()
	}
	return next, token
}

func describe(i *client.Info) description {
	d := description{Name: i.Name, ContentType: i.Config.ContentType, Closed: i.Closed, Forks: i.Forks}
	if d.Next, d.NextOffset = describeNext(i.Next); d.NextOffset == "" {
		d.Start = &i.Start
	}
	d.KeepAge, d.KeepBytes = i.Config.Retention.Age, i.Config.Retention.Bytes
	if f := i.Fork; f != nil {
		d.Fork = &origin{From: f.From, Seq: f.At, Sub: f.Sub}
	}
	switch e := i.Config.Expiry; e.Kind {
	case stream.ExpiresIdle:
		d.TTL = &e.TTL
	case stream.ExpiresAt:
		d.ExpiresAt = expiryText(e)
	case stream.ExpiresNever:
	}
	return d
}

func headCommand(s *session) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "head NAME",
		Short: "Describe a stream without reading it",
		Long: `Describe a stream without reading it: with the Pico protocol also what it
keeps by bounds of its own, where it was forked from, and how many live forks it has.`,
		Example:           "  picomq head logs/api\n  picomq head --json logs/api",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeName,
		RunE: s.verb(func(cmd *cobra.Command, c *client.Client, name stream.Name, _ []string) error {
			info, err := c.Head(cmd.Context(), name)
			if err != nil {
				return err
			}
			if asJSON {
				return printerOf(cmd.OutOrStdout(), false, true)([]client.Info{info})
			}
			return printInfo(cmd.OutOrStdout(), c.Protocol(), &info)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func printInfo(w io.Writer, protocol client.Protocol, i *client.Info) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "name\t%s\ntype\t%s\n", i.Name, i.Config.ContentType)
	if protocol == client.Pico {
		fmt.Fprintf(table, "start\t%d\n", i.Start)
	}
	fmt.Fprintf(table, "next\t%v\nstate\t%s\n", i.Next, state(i.Closed))
	if expires := expiryText(i.Config.Expiry); expires != "" {
		fmt.Fprintf(table, "expires\t%s\n", expires)
	}
	if keeps := retentionText(i.Config.Retention); keeps != "" {
		fmt.Fprintf(table, "keeps\t%s\n", keeps)
	}
	if i.Fork != nil {
		fmt.Fprintf(table, "forked\t%s\n", originText(i))
	}
	if i.Forks > 0 {
		fmt.Fprintf(table, "forks\t%d\n", i.Forks)
	}
	return table.Flush()
}

// originText prints how a fork began for people.
func originText(i *client.Info) string {
	text := fmt.Sprintf("from %s at %d", i.Fork.From, i.Fork.At)
	switch {
	case i.Fork.Sub == 0:
		return text
	case stream.IsJSON(i.Config.ContentType):
		return fmt.Sprintf("%s, and the next %d", text, i.Fork.Sub)
	default:
		return fmt.Sprintf("%s, and %d bytes of the next", text, i.Fork.Sub)
	}
}
