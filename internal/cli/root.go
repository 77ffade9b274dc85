package cli

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

// Root is the command picomq with all client verbs. Commands may be added to
// it. The version is what --version prints.
func Root(version string) *cobra.Command {
	s := &session{}
	root := &cobra.Command{
		Use:   "picomq",
		Short: "Durable streams over plain HTTP",
		Long: `PicoMQ keeps millions of small, durable, URL-addressable streams.

"picomq serve" runs a server; the other commands talk to one: to the local one,
or to that of --endpoint. A flag can be given as the environment variable that
its help names: --endpoint as PICOMQ_ENDPOINT. A variable that is empty is not set.

Exit codes: 0; 1 when a request or its output failed; 2 when the command line
was not understood; 3 when a check could not be completed; 128 and the number
of the signal that ended the command: 130 for SIGINT, 143 for SIGTERM, 141 when
its output was read no more.`,
		Example: `  picomq serve
  git log --oneline | picomq append --create repo/log
  picomq tail -f repo/log`,
		Version:           version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnv(cmd) },
	}
	root.SetVersionTemplate(versionText(version) + "\n")
	for _, verb := range []func(*session) *cobra.Command{
		createCommand, forkCommand, appendCommand, readCommand, tailCommand, headCommand, listCommand,
		trimCommand, closeCommand, deleteCommand, benchCommand,
	} {
		cmd := verb(s)
		s.flags(cmd)
		BindEnv(cmd)
		root.AddCommand(cmd)
	}
	root.AddCommand(adminCommand(), versionCommand(version))
	return root
}

// endpointFlag is the flag that every command has which talks to a server.
const endpointFlag = "endpoint"

// session is what the verbs share: the flags of all of them.
type session struct {
	endpoint string
	protocol string
}

func (s *session) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.endpoint, endpointFlag, "http://127.0.0.1:4437", "`URL` of the server, or HOST:PORT")
	cmd.Flags().StringVar(&s.protocol, "protocol", "pico", "protocol to speak: pico or ds (Durable Streams)")
	completeValues(cmd, "protocol", "pico", "ds")
}

// url is the endpoint as a URL; HOST:PORT is one of http.
func (s *session) url() string {
	authority, _, _ := strings.Cut(s.endpoint, "/")
	_, port, err := net.SplitHostPort(authority)
	if _, notNumber := strconv.ParseUint(port, 10, 16); err != nil || notNumber != nil {
		return s.endpoint
	}
	return "http://" + s.endpoint
}

// connect makes the client that the flags ask for. What is tried again is told
// on standard error, each failure once however often it repeats.
func (s *session) connect(cmd *cobra.Command) (*client.Client, error) {
	protocol, err := client.ParseProtocol(s.protocol)
	if err != nil {
		return nil, usagef("--protocol: %w", err)
	}
	last := ""
	c, err := client.New(s.url(), client.Options{
		Protocol: protocol,
		Notify: func(err error, pause time.Duration) {
			if text := err.Error(); text != last {
				last = text
				note(cmd.ErrOrStderr(), "%s; trying again in %v", text, pause.Round(time.Millisecond))
			}
		},
	})
	if err != nil {
		return nil, usagef("--endpoint: %w; write http://HOST:PORT", err)
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
