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
with another one it is an error. A configuration never changes afterwards.

--retention-age and --retention-bytes bound what the stream keeps: older records
are removed in the background, a while after they may be, and reads there are told
where the stream begins. Without a bound of its own the stream has the server's.`,
		Example: `  picomq create logs/api --content-type text/plain
  picomq create sessions/42 --content-type application/json --ttl 1h
  picomq create news/2030 --expires-at 2031-01-01T00:00:00Z
  picomq create logs/web --retention-age 7d --retention-bytes 1000000000`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeName,
		RunE: s.verb(func(cmd *cobra.Command, c *client.Client, name stream.Name, _ []string) error {
			config, err := f.config(cmd.Flags())
			if err != nil {
				return err
			}
			config.ContentType = contentType
			created, err := c.Create(cmd.Context(), name, client.CreateRequest{Config: config, Closed: f.closed})
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
	keepAge   Age
	keepBytes uint64
	closed    bool
	asJSON    bool
}

// The flags of retention. They have the names of the server's defaults.
const (
	retentionAgeFlag   = "retention-age"
	retentionBytesFlag = "retention-bytes"
)

func (f *createFlags) define(flags *pflag.FlagSet) {
	flags.DurationVar(&f.ttl, "ttl", 0, "remove the stream when it was neither read nor written for so long, in whole seconds (30m)")
	flags.StringVar(&f.expiresAt, "expires-at", "", "remove the stream at this time (RFC 3339)")
	rivalFlags(flags, "ttl", "expires-at")
	flags.Var(&f.keepAge, retentionAgeFlag, "remove records older than this (7d, 36h, 3600)")
	flags.Uint64Var(&f.keepBytes, retentionBytesFlag, 0, "keep so many bytes of the newest records")
	withoutVariable(flags, retentionAgeFlag)
	withoutVariable(flags, retentionBytesFlag)
	flags.BoolVar(&f.closed, "closed", false, "create it closed: nothing can be appended")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object that says whether it is new, and its next sequence")
}

// config is what the flags say of a stream, all but its type.
func (f *createFlags) config(flags *pflag.FlagSet) (stream.Config, error) {
	expiry, err := f.expiry()
	if err != nil {
		return stream.Config{}, err
	}
	retention, err := f.retention(flags)
	return stream.Config{Expiry: expiry, Retention: retention}, err
}

// retention refuses a bound of 0, which may be meant as none at all.
func (f *createFlags) retention(flags *pflag.FlagSet) (stream.Retention, error) {
	keep := stream.Retention{Age: uint64(f.keepAge), Bytes: f.keepBytes}
	switch {
	case keep.Age == 0 && flags.Changed(retentionAgeFlag):
		return keep, usagef("--%s is 0; leave it out to have the server's default", retentionAgeFlag)
	case keep.Bytes == 0 && flags.Changed(retentionBytesFlag):
		return keep, usagef("--%s is 0; leave it out to have the server's default", retentionBytesFlag)
	case keep.Bytes > stream.MaxRetentionBytes:
		return keep, usagef("--%s is %d; at most %d", retentionBytesFlag, keep.Bytes, stream.MaxRetentionBytes)
	}
	return keep, nil
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

// retentionText prints what a stream keeps for people; empty where it states no
// bound.
func retentionText(keep stream.Retention) string {
	age := Age(keep.Age)
	switch {
	case keep.Age > 0 && keep.Bytes > 0:
		return fmt.Sprintf("%v, and %d bytes at most", &age, keep.Bytes)
	case keep.Age > 0:
		return age.String()
	case keep.Bytes > 0:
		return fmt.Sprintf("%d bytes at most", keep.Bytes)
	default:
		return ""
	}
}
