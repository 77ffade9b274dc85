package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
	// exitSignal and the number of the signal is the code of what it ended.
	exitSignal = 128
)

// Execute runs the command that os.Args (or root.SetArgs) names until it ends
// or a signal ends it, prints its error, and returns the exit code. The
// command's context is a child of root's. Call it once for a root.
func Execute(root *cobra.Command) int {
	ctx, release := withSignals(root.Context())
	defer release()
	root.SetOut(&output{root.OutOrStdout()})
	speakPlainly(root)

	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case isReaderGone(err):
		return exitSignal + int(syscall.SIGPIPE)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitSignal + int(endedBy(ctx))
	case understood(cmd, err):
		fmt.Fprintf(root.ErrOrStderr(), "picomq: %s\n", oneLine(err.Error()+serverHint(cmd, err)))
		var coded codedError
		if errors.As(err, &coded) {
			return coded.code
		}
		return exitFailed
	}
	see := "; see"
	message := oneLine(err.Error() + commandHint(cmd, err))
	if strings.HasSuffix(message, "?") {
		see = " See"
	}
	fmt.Fprintf(root.ErrOrStderr(), "picomq: %s%s %s --help\n", message, see, cmd.CommandPath())
	return exitUsage
}

// endingSignal is why a context ended that a signal ended.
type endingSignal struct{ syscall.Signal }

// Error implements error.
func (s endingSignal) Error() string { return s.String() }

// withSignals is a context that the first SIGINT or SIGTERM ends; a second one
// kills the process. The caller releases it.
func withSignals(parent context.Context) (ctx context.Context, release func()) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			signal.Stop(signals)
			number, _ := s.(syscall.Signal) // every os.Signal is one
			cancel(endingSignal{number})
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// endedBy is the signal that ended the context. Whoever ended it otherwise
// interrupted the command.
func endedBy(ctx context.Context) syscall.Signal {
	var s endingSignal
	if errors.As(context.Cause(ctx), &s) {
		return s.Signal
	}
	return syscall.SIGINT
}

// usageError is what the user can only mend on the command line.
type usageError struct{ error }

// Unwrap is the error itself.
func (e usageError) Unwrap() error { return e.error }

// UsageError marks an error as one of the command line: it ends picomq with
// exit code 2.
func UsageError(err error) error { return usageError{err} }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// codedError has an exit code of its own.
type codedError struct {
	error
	code int
}

// Unwrap is the error itself.
func (e codedError) Unwrap() error { return e.error }

// CodedError gives an error an exit code other than 1, for a command whose
// failures scripts tell apart.
func CodedError(code int, err error) error { return codedError{err, code} }

// begun is the annotation of a command whose flags and arguments were accepted.
const begun = "picomq-begun"

// understood tells whether the command line was accepted and the error came
// from carrying it out.
func understood(cmd *cobra.Command, err error) bool {
	var usage usageError
	return cmd.Annotations[begun] != "" && !errors.As(err, &usage)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// serverHint is what to try when nothing listens where the server should be.
func serverHint(cmd *cobra.Command, err error) string {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return ""
	}
	for _, flag := range []string{endpointFlag, adminFlag} {
		if cmd.Flags().Lookup(flag) != nil {
			return `; is "picomq serve" running? --` + flag + ` names another server`
		}
	}
	return ""
}

// commandHint is the commands whose names are like the one that there is not.
func commandHint(cmd *cobra.Command, err error) string {
	var name string
	if _, other := fmt.Sscanf(err.Error(), "unknown command %q", &name); other != nil {
		return ""
	}
	like := cmd.SuggestionsFor(name)
	if len(like) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(like, " or ") + "?"
}
