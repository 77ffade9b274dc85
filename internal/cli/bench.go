package cli

import "github.com/spf13/cobra"

func benchCommand(*session) *cobra.Command { return &cobra.Command{Use: "bench"} }
