package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// BindEnv lets every flag of a command come from its environment variable and
// names the variable in the flag's help. Call it after the flags are defined;
// the command must run below [Root], which reads the variables.
func BindEnv(cmd *cobra.Command) { describeEnv(cmd.Flags()) }

// variable is the environment variable of a flag.
func variable(flag string) string {
	return "PICOMQ_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromCommandLineOnly are flags that are not settings.
func fromCommandLineOnly(flag string) bool { return flag == "help" || flag == "version" }

func describeEnv(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !fromCommandLineOnly(f.Name) {
			f.Usage += fmt.Sprintf(" [$%s]", variable(f.Name))
		}
	})
}

// fromEnv sets the flags that the command line did not. It is the last step
// before a command runs.
func fromEnv(cmd *cobra.Command) error {
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, set := os.LookupEnv(variable(f.Name))
		if err != nil || !set || f.Changed || fromCommandLineOnly(f.Name) {
			return
		}
		if failed := cmd.Flags().Set(f.Name, value); failed != nil {
			err = usagef("$%s is %q: %w", variable(f.Name), value, failed)
		}
	})
	if err != nil {
		return err
	}
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[begun] = "yes"
	return nil
}
