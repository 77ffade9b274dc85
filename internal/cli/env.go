package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// BindEnv lets every flag of a command come from its environment variable and
// names the variable in the flag's help, but for those of [withoutVariable]. Call it after the flags are defined;
// the command must run below [Root], which reads the variables.
func BindEnv(cmd *cobra.Command) { describeEnv(cmd.Flags()) }

// variable is the environment variable of a flag.
func variable(flag string) string {
	return "PICOMQ_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// noVariable is the annotation of a flag that has no variable.
const noVariable = "picomq-no-variable"

// withoutVariable takes its variable from a flag that shares its name with a
// setting of the server: where that is set, every client would follow it.
func withoutVariable(flags *pflag.FlagSet, name string) {
	if err := flags.SetAnnotation(name, noVariable, nil); err != nil {
		panic(err) // no such flag
	}
}

// fromCommandLineOnly are flags that are not settings.
func fromCommandLineOnly(f *pflag.Flag) bool {
	_, marked := f.Annotations[noVariable]
	return marked || f.Name == "help" || f.Name == "version"
}

func describeEnv(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !fromCommandLineOnly(f) {
			f.Usage += fmt.Sprintf(" [$%s]", variable(f.Name))
		}
	})
}

// rivals is the annotation of a flag that names those it excludes.
const rivals = "picomq-rivals"

// rivalFlags says that two flags exclude each other, so that one given on the
// command line wins over the variable of the other. That both are not given in
// the same place is for the command to check.
func rivalFlags(flags *pflag.FlagSet, a, b string) {
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		if err := flags.SetAnnotation(pair[0], rivals, []string{pair[1]}); err != nil {
			panic(err) // no such flag
		}
	}
}

// fromEnv sets the flags that the command line did not from the variables that
// are not empty. It is the last step before a command runs.
func fromEnv(cmd *cobra.Command) error {
	ruledOut := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, rival := range f.Annotations[rivals] {
			ruledOut[rival] = true
		}
	})
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value := os.Getenv(variable(f.Name))
		if err != nil || value == "" || f.Changed || ruledOut[f.Name] || fromCommandLineOnly(f) {
			return
		}
		if failed := cmd.Flags().Set(f.Name, value); failed != nil {
			err = variableError(f.Name, value, failed)
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

func variableError(flag, value string, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		err = valueError(invalid)
	}
	return usagef("$%s %q: %w", variable(flag), value, err)
}
