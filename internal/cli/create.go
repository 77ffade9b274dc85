package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

func createCommand(s *session) *cobra.Command {
	var f createFlags
	var contentType string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a stream",
		Long: `Create a stream. It is fine if the stream exists with the same configuration;
with another one it is an error. A configuration never changes afterwards.`,
		Example: `  picomq create logs/api --content-type text/plain
  picomq create sessions/42 --content-type application/json --ttl 1h
  picomq create news/2030 --expires-at 2031-01-01T00:00:00Z`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeName,
		RunE: s.verb(func(cmd *cobra.Command, c *client.Client, name stream.Name, _ []string) error {
			expiry, err := f.expiry()
			if err != nil {
				return err
			}
			created, err := c.Create(cmd.Context(), name, client.CreateRequest{
				Config: stream.Config{ContentType: contentType, Expiry: expiry}, Closed: f.closed,
			})
			if err != nil {
				return err
			}
			if created.New {
				note(cmd.ErrOrStderr(), "created %s", name)
			} else {
				note(cmd.ErrOrStderr(), "%s exists with this configuration, next is %v", name, created.Next)
			}
			return f.print(cmd, name, &created)
		}),
	}
	cmd.Flags().StringVar(&contentType, "content-type", stream.DefaultContentType, "type of the records; with application/json each must be JSON")
	f.define(cmd.Flags())
	return cmd
}

// createFlags is what every stream can be created with, and how the answer is
// printed.
type createFlags struct {
	ttl       time.Duration
	expiresAt string
	closed    bool
	asJSON    bool
}

func (f *createFlags) define(flags *pflag.FlagSet) {
	flags.DurationVar(&f.ttl, "ttl", 0, "remove the stream when it was neither read nor written for so long, in whole seconds (30m)")
	flags.StringVar(&f.expiresAt, "expires-at", "", "remove the stream at this time (RFC 3339)")
	rivalFlags(flags, "ttl", "expires-at")
	flags.BoolVar(&f.closed, "closed", false, "create it closed: nothing can be appended")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object that says whether it is new, and its next sequence")
}

func (f *createFlags) expiry() (stream.Expiry, error) {
	switch {
	case f.ttl != 0 && f.expiresAt != "":
		return stream.Expiry{}, usagef("--ttl and --expires-at exclude each other")
	case f.ttl < 0 || f.ttl%time.Second != 0:
		return stream.Expiry{}, usagef("--ttl is %v; it must be whole seconds", f.ttl)
	case f.ttl > 0:
		return stream.Expiry{Kind: stream.ExpiresIdle, TTL: uint64(f.ttl / time.Second)}, nil
	case f.expiresAt != "":
		at, err := time.Parse(time.RFC3339, f.expiresAt)
		if err != nil {
			return stream.Expiry{}, usagef("--expires-at is %q; write it like 2031-01-31T12:00:00Z", f.expiresAt)
		}
		return stream.Expiry{Kind: stream.ExpiresAt, At: stream.Time(at.UnixMilli())}, nil
	default:
		return stream.Expiry{}, nil
	}
}

// print is the answer for programs, if they asked for it.
func (f *createFlags) print(cmd *cobra.Command, name stream.Name, c *client.Created) error {
	if !f.asJSON {
		return nil
	}
	out := struct {
		Name       stream.Name    `json:"name"`
		New        bool           `json:"new"`
		Next       *stream.Offset `json:"next_seq,omitempty"`
		NextOffset string         `json:"next_offset,omitempty"` // of Durable Streams
		Closed     bool           `json:"closed"`
	}{Name: name, New: c.New, Closed: c.Closed}
	out.Next, out.NextOffset = describeNext(c.Next)
	return jsonLines(cmd.OutOrStdout()).Encode(out)
}

// expiryText prints an expiry for people; empty for never.
func expiryText(e stream.Expiry) string {
	switch e.Kind {
	case stream.ExpiresIdle:
		return fmt.Sprintf("%v idle", time.Duration(e.TTL)*time.Second)
	case stream.ExpiresAt:
		return time.UnixMilli(int64(e.At)).UTC().Format(time.RFC3339)
	default:
		return ""
	}
}
