package cli_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/cli"
)

// TestSignals: the exit code tells which signal ended a command.
func TestSignals(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(sig.String(), func(t *testing.T) {
			s := newShell(t)
			s.ok("1\n", "append", "--create", "a")
			var out, errs lockedBuffer
			done := make(chan int, 1)
			go func() { done <- s.start(t.Context(), nil, &out, &errs, "tail", "-f", "a") }()
			require.Eventually(t, func() bool { return out.String() == "1\n" }, time.Minute, time.Millisecond)
			require.NoError(t, syscall.Kill(os.Getpid(), sig))
			require.Equal(t, code, <-done)
			require.Empty(t, errs.String())
		})
	}
}

// TestReaderGone: a command whose output is read no more ends quietly, also
// while it waits.
func TestReaderGone(t *testing.T) {
	for _, args := range [][]string{{"read", "a"}, {"ls"}, {"head", "a"}, {"tail", "-f", "a"}, {"tail", "-f", "-n", "0", "a"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			s := newShell(t)
			s.ok("1\n", "append", "--create", "a")
			reader, writer, err := os.Pipe()
			require.NoError(t, err)
			require.NoError(t, reader.Close())
			var errs lockedBuffer
			require.Equal(t, 141, s.start(t.Context(), nil, writer, &errs, args...))
			require.Empty(t, errs.String())
			require.NoError(t, writer.Close())
		})
	}
}

// full is a disk without room.
type full struct{}

// Write implements io.Writer.
func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestOutputThatCannotBeWritten: no command succeeds that lost its output.
func TestOutputThatCannotBeWritten(t *testing.T) {
	s := newShell(t)
	s.ok("1\n", "append", "--create", "a")
	for _, line := range []string{
		"read a", "read a --format json", "read a --format raw", "tail a", "tail -f a", "ls", "ls -l", "ls --json", "head a", "head --json a",
		"append --json --body x a", "create --json b", "fork --json a c", "bench --duration 10ms --streams 1 --connections 1",
		"bench --duration 10ms --streams 1 --connections 1 --json",
	} {
		var errs bytes.Buffer
		require.Equal(t, 1, s.start(t.Context(), strings.NewReader(""), full{}, &errs, strings.Fields(line)...), line)
		require.Contains(t, errs.String(), "no space left on device", line)
	}
}

// TestBrokenConnectionIsNoQuietEnd: only standard output ends a command
// quietly.
func TestBrokenConnectionIsNoQuietEnd(t *testing.T) {
	root := cli.Root("v1")
	root.AddCommand(&cobra.Command{Use: "break", RunE: func(*cobra.Command, []string) error { return syscall.EPIPE }})
	root.SetArgs([]string{"break"})
	var errs bytes.Buffer
	root.SetErr(&errs)
	require.Equal(t, 1, cli.Execute(root))
	require.Equal(t, "picomq: broken pipe\n", errs.String())
}

// TestCommandsWithoutServer neither take nor show the flags of those that talk
// to one, nor hint at it.
func TestCommandsWithoutServer(t *testing.T) {
	run := func(args ...string) (out, errs string, code int) {
		root := cli.Root("v1")
		serve := &cobra.Command{Use: "serve", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			return errors.Join(syscall.ECONNREFUSED)
		}}
		serve.Flags().Int64("cache-bytes", 0, "memory")
		cli.BindEnv(serve)
		root.AddCommand(serve)
		root.SetArgs(args)
		var o, e bytes.Buffer
		root.SetOut(&o)
		root.SetErr(&e)
		code = cli.Execute(root)
		return o.String(), e.String(), code
	}
	for _, command := range []string{"serve", "version", "completion"} {
		out, _, _ := run(command, "--help")
		require.NotContains(t, out, "endpoint string", command)
		require.NotContains(t, out, "--protocol", command)
	}
	for _, verb := range []string{"create", "fork", "append", "read", "tail", "head", "ls", "trim", "close", "delete", "bench"} {
		out, _, _ := run(verb, "--help")
		require.Contains(t, out, "--endpoint URL", verb)
		require.Contains(t, out, "--protocol string", verb)
	}
	for message, args := range map[string][]string{
		"picomq: serve takes no arguments: \"extra\"; see picomq serve --help\n":          {"serve", "extra"},
		"picomq: --cache-bytes \"256MB\": want a whole number; see picomq serve --help\n": {"serve", "--cache-bytes", "256MB"},
		"picomq: bash takes no arguments: \"extra\"; see picomq completion bash --help\n": {"completion", "bash", "extra"},
		"picomq: unknown flag: --endpoint; see picomq serve --help\n":                     {"serve", "--endpoint", "x"},
	} {
		_, errs, code := run(args...)
		require.Equal(t, message, errs)
		require.Equal(t, 2, code)
	}
	t.Setenv("PICOMQ_ENDPOINT", "http://example.org")
	_, errs, code := run("serve")
	require.Equal(t, 1, code)
	require.Equal(t, "picomq: connection refused\n", errs)
}

// TestEndpointForms: HOST:PORT is enough.
func TestHelpOfWhatThereIsNot(t *testing.T) {
	for _, args := range [][]string{{"help", "frob"}, {"completion", "frob"}} {
		r := newShell(t).plain(args...)
		require.Equal(t, 2, r.code)
		require.Empty(t, r.out)
		require.Contains(t, r.err, `unknown command "frob" for "picomq`)
	}
	for _, args := range [][]string{{"help"}, {"help", "admin", "stream"}, {"completion"}, {"completion", "bash"}} {
		require.Equal(t, 0, newShell(t).plain(args...).code, args)
	}
}

func TestEndpointForms(t *testing.T) {
	s := newShell(t)
	s.ok("", "create", "a")
	address := strings.TrimPrefix(s.server.URL, "http://")
	_, port, _ := strings.Cut(address, ":")
	bare := &shell{t: t, server: s.server}
	for _, endpoint := range []string{address, address + "/", "localhost:" + port, ":" + port} {
		require.Equal(t, "a\n", bare.ok("", "ls", "--endpoint", endpoint), endpoint)
	}
	require.Equal(t, "a\n", bare.ok("", "--endpoint", address, "ls"), "the flag may stand first")
	bare.ok("", "bench", "--endpoint", address, "--duration", "1ms", "--connections", "1", "--streams", "1")
	for _, endpoint := range []string{"localhost", "localhost:http", "127.0.0.1:99999"} {
		bare.fails(2, "write http://HOST:PORT", "ls", "--endpoint", endpoint)
	}
}

// TestAnotherKindOfServer: somebody who asks the admin port is told.
func TestAnotherKindOfServer(t *testing.T) {
	s := newShell(t)
	s.server.Intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { http.NotFound(w, r) })
	for _, args := range [][]string{{"ls"}, {"read", "a"}, {"head", "a"}} {
		s.fails(1, "is this a PicoMQ server's public address?", args...)
	}
	require.Equal(t, 1, s.start(t.Context(), strings.NewReader("x"), io.Discard, io.Discard, "append", "--create", "a"))
}
