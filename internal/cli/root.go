package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

// The exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// Root is the command picomq with all client verbs. Commands may be added to
// it. The version is what --version prints.
func Root(version string) *cobra.Command {
	s := &session{}
	root := &cobra.Command{
		Use:   "picomq",
		Short: "Durable streams over plain HTTP",
		Long: `PicoMQ keeps millions of small, durable, URL-addressable streams.

"picomq serve" runs a server; the other commands talk to one. Every flag can be
given as an environment variable too: --endpoint as PICOMQ_ENDPOINT.`,
		Example: `  picomq serve
  git log --oneline | picomq append --create repo/log
  picomq tail -f repo/log`,
		Version:           version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnv(cmd) },
	}
	root.SetVersionTemplate(versionText(version) + "\n")
	flags := root.PersistentFlags()
	flags.StringVar(&s.endpoint, "endpoint", "http://127.0.0.1:4437", "URL of the server")
	flags.StringVar(&s.protocol, "protocol", "pico", "protocol to speak: pico or ds (Durable Streams)")
	_ = root.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions([]string{"pico", "ds"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	describeEnv(flags)
	for _, verb := range []func(*session) *cobra.Command{
		createCommand, appendCommand, readCommand, tailCommand, headCommand, listCommand,
		trimCommand, closeCommand, deleteCommand, benchCommand,
	} {
		cmd := verb(s)
		describeEnv(cmd.Flags())
		root.AddCommand(cmd)
	}
	root.AddCommand(versionCommand(version))
	return root
}

// Execute runs the command that os.Args (or root.SetArgs) names until it ends
// or a signal ends it, prints its error, and returns the exit code. The
// command's context is a child of root's.
func Execute(root *cobra.Command) int {
	parent := root.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills

	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	message := strings.Join(strings.Fields(err.Error()), " ")
	if !understood(cmd, err) {
		fmt.Fprintf(root.ErrOrStderr(), "picomq: %s; see %s --help\n", message, cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(root.ErrOrStderr(), "picomq: %s\n", message)
	return exitFailed
}

// usageError is what the user can only mend on the command line.
type usageError struct{ error }

// Unwrap is the error itself.
func (e usageError) Unwrap() error { return e.error }

// UsageError marks an error as one of the command line: it ends picomq with
// exit code 2.
func UsageError(err error) error { return usageError{err} }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// begun is the annotation of a command whose flags and arguments were accepted.
const begun = "picomq-begun"

// understood tells whether the command line was accepted and the error came
// from carrying it out.
func understood(cmd *cobra.Command, err error) bool {
	var usage usageError
	return cmd.Annotations[begun] != "" && !errors.As(err, &usage)
}

// session is what the verbs share: the persistent flags.
type session struct {
	endpoint string
	protocol string
}

// connect makes the client that the flags ask for. What is tried again is told
// on standard error, each failure once however often it repeats.
func (s *session) connect(cmd *cobra.Command) (*client.Client, error) {
	protocol, err := client.ParseProtocol(s.protocol)
	if err != nil {
		return nil, usagef("--protocol: %w", err)
	}
	last := ""
	c, err := client.New(s.endpoint, client.Options{
		Protocol: protocol,
		Notify: func(err error, pause time.Duration) {
			if text := err.Error(); text != last {
				last = text
				note(cmd.ErrOrStderr(), "%s; trying again in %v", text, pause.Round(time.Millisecond))
			}
		},
	})
	if err != nil {
		return nil, usagef("--endpoint: %w", err)
	}
	return c, nil
}

// note tells something that is neither data nor an error.
func note(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "picomq: "+format+"\n", args...)
}

// verb makes the function that runs a command on one stream, whose name is the
// first argument.
func (s *session) verb(run func(cmd *cobra.Command, c *client.Client, name stream.Name, rest []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		name, err := parseName(args[0])
		if err != nil {
			return err
		}
		c, err := s.connect(cmd)
		if err != nil {
			return err
		}
		defer c.CloseIdleConnections()
		return run(cmd, c, name, args[1:])
	}
}

// parseName takes a name as it stands in a URL, with or without the leading
// slash.
func parseName(argument string) (stream.Name, error) {
	name, err := stream.ParseName(strings.TrimPrefix(argument, "/"))
	if err != nil {
		return "", UsageError(err)
	}
	return name, nil
}
