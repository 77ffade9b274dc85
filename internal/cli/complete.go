package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Bounds of a completion: it happens while somebody waits for a key.
const (
	completionLimit = 100
	completionTime  = 2 * time.Second
)

// completeName completes stream names by asking the server. What it cannot
// find out, it does not offer.
func (s *session) completeName(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	const nothing = cobra.ShellCompDirectiveNoFileComp
	if fromEnv(cmd) != nil || !takesName(cmd, len(args)) {
		return nil, nothing
	}
	c, err := s.connect(cmd)
	if err != nil {
		return nil, nothing
	}
	defer c.CloseIdleConnections()
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTime)
	defer cancel()
	slash := ""
	if strings.HasPrefix(begin, "/") {
		slash = "/"
	}
	page, err := c.List(ctx, strings.TrimPrefix(begin, "/"), "", completionLimit)
	if err != nil {
		return nil, nothing
	}
	var names []string
	for _, i := range page.Streams {
		names = append(names, slash+string(i.Name))
	}
	return names, nothing | cobra.ShellCompDirectiveNoSpace
}

// takesName tells whether the argument after so many others is a stream's name.
func takesName(cmd *cobra.Command, others int) bool {
	switch cmd.Name() {
	case "delete":
		return true
	case "fork":
		return others < 2
	default:
		return others == 0
	}
}

// completeValues completes a flag that has one of these values. The flag must
// exist.
func completeValues(cmd *cobra.Command, flag string, values ...string) {
	complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}
