package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

func forkCommand(s *session) *cobra.Command {
	var f createFlags
	var at string
	cmd := &cobra.Command{
		Use:   "fork SRC DST",
		Short: "Create a stream that begins with another's records",
		Long: `Create the stream DST that begins with the records of SRC below --at, under the
same sequences, and goes on by itself. No record is copied: a million take a few
milliseconds. From then on neither sees what is appended to, trimmed from or closed
in the other, and DST keeps its records when SRC is deleted or expires.

--at is a sequence, "start" for the first record that is retained, "now" for the
end (the default), or -N for N records before the end, which is looked up first.
With --protocol ds it may be an offset as that protocol prints it, and not "start".

DST has the type of SRC, its --ttl or --expires-at unless one is given, and each of
--retention-age and --retention-bytes unless it is given. It is fine if DST exists
as just this fork; otherwise that is an error. Without --at any fork of SRC counts as
this one, wherever it goes its own way.`,
		Example: `  # a chat is edited and resent: keep the messages below 4
  picomq fork chats/42 chats/42-edited --at 4
  picomq append chats/42-edited --body 'what I meant to ask'

  # an agent tries two continuations of one run, and drops one
  picomq fork runs/7 runs/7-a
  picomq fork runs/7 runs/7-b
  picomq delete runs/7-b

  # without the last record
  picomq fork logs/api logs/api-before --at -1`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: s.completeName,
		RunE: s.verb(func(cmd *cobra.Command, c *client.Client, from stream.Name, rest []string) error {
			name, err := parseName(rest[0])
			if err != nil {
				return err
			}
			if name == from {
				return usagef("SRC and DST are both %q; a stream cannot be a fork of itself", name)
			}
			r, err := f.forkRequest(cmd.Flags(), from, at)
			if err != nil {
				return err
			}
			created, err := c.Create(cmd.Context(), name, r)
			if err != nil {
				return forkError(err)
			}
			if created.New {
				note(cmd.ErrOrStderr(), "forked %s from %s, next is %v", name, from, created.Next)
			} else {
				note(cmd.ErrOrStderr(), "%s exists as this fork of %s, next is %v", name, from, created.Next)
			}
			return f.print(cmd, name, &created)
		}),
	}
	cmd.Flags().StringVar(&at, "at", "now", "where DST goes its own way: a sequence, start, now, or -N")
	f.define(cmd.Flags())
	return cmd
}

func (f *createFlags) forkRequest(flags *pflag.FlagSet, from stream.Name, at string) (client.CreateRequest, error) {
	position, err := parsePosition("at", at)
	if err != nil {
		return client.CreateRequest{}, err
	}
	config, err := f.config(flags)
	return client.CreateRequest{
		Config: config,
		Closed: f.closed,
		Fork:   &client.ForkRequest{From: from, At: &position},
	}, err
}

// forkError reminds of the arguments' order when the first names no stream.
func forkError(err error) error {
	if stream.CodeOf(err) == stream.CodeNotFound {
		return stream.Errorf(stream.CodeNotFound, "%w to fork; the one to begin with comes first: picomq fork SRC DST", err)
	}
	return err
}
