package cli

import (
	"github.com/spf13/cobra"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

func trimCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "trim NAME SEQ",
		Short: "Drop the records below a sequence",
		Long: `Drop the records below a sequence for good. A sequence beyond the end drops
everything there is; the numbers of later records go on as before.`,
		Example:           "  picomq trim logs/api 100000",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: s.completeName,
		RunE: s.verb(func(cmd *cobra.Command, c *client.Client, name stream.Name, rest []string) error {
			to, err := wire.ParseDecimal(rest[0])
			if err != nil {
				return usagef("SEQ: %w", err)
			}
			start, err := c.Trim(cmd.Context(), name, stream.Offset(to))
			if err != nil {
				return err
			}
			note(cmd.ErrOrStderr(), "%s starts at %d", name, start)
			return nil
		}),
	}
}

func closeCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "close NAME",
		Short: "Close a stream",
		Long: `Close a stream: it can be read, and nothing can be appended any more. Readers
that follow it end. Closing cannot be undone; closing again does nothing.`,
		Example:           "  picomq close logs/api",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeName,
		RunE: s.verb(func(cmd *cobra.Command, c *client.Client, name stream.Name, _ []string) error {
			closed, err := c.Close(cmd.Context(), name)
			if err != nil {
				return err
			}
			note(cmd.ErrOrStderr(), "closed %s at %v", name, closed.Next)
			return nil
		}),
	}
}

func deleteCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use:     "delete NAME...",
		Aliases: []string{"rm"},
		Short:   "Delete streams",
		Long: `Delete streams with all their records. A name is free at once; a stream created
under it anew is another stream and starts at 0.

Forks lose nothing. While forks of a deleted stream live its name stays taken:
to use it is an error until the last of them is gone.`,
		Example:           "  picomq delete logs/api logs/web",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeName,
		RunE: s.verb(func(cmd *cobra.Command, c *client.Client, name stream.Name, rest []string) error {
			names := []stream.Name{name}
			for _, argument := range rest {
				other, err := parseName(argument)
				if err != nil {
					return err
				}
				names = append(names, other)
			}
			for _, name := range names {
				if err := c.Delete(cmd.Context(), name); err != nil {
					return err
				}
				note(cmd.ErrOrStderr(), "deleted %s", name)
			}
			return nil
		}),
	}
}
