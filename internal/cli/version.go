package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText(version))
			return err
		},
	}
}

// versionText is the release, the commit it was built from where the build
// recorded it, and what built it.
func versionText(version string) string {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		commit = commitOf(info.Settings)
	}
	return fmt.Sprintf("picomq %s%s %s %s/%s", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func commitOf(settings []debug.BuildSetting) string {
	var revision, mark string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			mark = "+changes"
		}
	}
	if revision == "" {
		return ""
	}
	return " commit " + revision[:min(len(revision), 12)] + mark
}
