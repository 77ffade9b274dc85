package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// speakPlainly puts the errors of the command line that the library makes into
// the words of the user, for a command and all below it.
func speakPlainly(root *cobra.Command) {
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help": // cobra's prints the whole help instead, and succeeds
			cmd.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		case "completion": // likewise
			cmd.Args, cmd.RunE = knownVerb, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	eachCommand(root, func(cmd *cobra.Command) {
		cmd.DisableSuggestions = true // inside of the error; commandHint makes them
		cmd.SuggestionsMinimumDistance = 2
		if check := cmd.Args; check != nil && !cmd.HasSubCommands() {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				err := check(cmd, args)
				if err == nil {
					return nil
				}
				if plain := miscounted(cmd.Use, args); plain != nil {
					return plain
				}
				return err
			}
		}
	})
}

func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, child := range cmd.Commands() {
		eachCommand(child, do)
	}
}

// miscounted says which arguments are missing from, or too many for, a usage
// line such as "trim NAME SEQ", "delete NAME..." or "ls [PREFIX]". It is nil
// when their number is right.
func miscounted(usage string, args []string) error {
	words := strings.Fields(usage)
	command, names := words[0], words[1:]
	for i, name := range names {
		switch {
		case i >= len(args) && strings.HasPrefix(name, "["):
			return nil
		case i >= len(args):
			return fmt.Errorf("%s is missing", strings.TrimSuffix(name, "..."))
		case strings.HasSuffix(name, "..."):
			return nil
		}
	}
	if len(args) == len(names) {
		return nil
	}
	var extra []string
	for _, arg := range args[len(names):] {
		extra = append(extra, strconv.Quote(arg))
	}
	if len(names) == 0 {
		return fmt.Errorf("%s takes no arguments: %s", command, strings.Join(extra, ", "))
	}
	return fmt.Errorf("too many arguments: %s", strings.Join(extra, ", "))
}

// flagError is the error of a flag that does not show how values are parsed.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	return fmt.Errorf("--%s %q: %w", invalid.GetFlag().Name, invalid.GetValue(), valueError(invalid))
}

// valueError says what a flag wants instead of the value it was given.
func valueError(invalid *pflag.InvalidValueError) error {
	kind := invalid.GetFlag().Value.Type()
	switch {
	case errors.Is(invalid, strconv.ErrRange):
		return errors.New("the number is out of range")
	case strings.HasPrefix(kind, "int"):
		return errors.New("want a whole number")
	case strings.HasPrefix(kind, "uint"):
		return errors.New("want a whole number that is not negative")
	case strings.HasPrefix(kind, "float"):
		return errors.New("want a number")
	case kind == "bool":
		return errors.New("want true or false")
	case kind == "duration":
		return errors.New("want a duration such as 250ms, 30s or 1h")
	default:
		return invalid.Unwrap()
	}
}
