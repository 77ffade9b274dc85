package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/process"
)

// binary is the command as users run it, built once for the tests of its
// process: signals, exit codes, what it prints.
var binary string

func TestMain(m *testing.M) {
	code, err := withBinary(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withBinary(run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "picomq-test-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if binary, err = process.Build(context.Background(), dir); err != nil {
		return 0, err
	}
	return run(), nil
}

// patience turns a hang into a failure. What is waited for takes milliseconds on a
// machine that does nothing else.
const patience = 3 * time.Minute

// configOf is what flags of serve say.
func configOf(t *testing.T, args ...string) *config {
	t.Helper()
	c, flags := new(config), pflag.NewFlagSet("serve", pflag.ContinueOnError)
	c.flags(flags)
	require.NoError(t, flags.Parse(args))
	require.NoError(t, c.validate())
	return c
}

// launch starts a server on free ports and waits until it is ready. It is gone
// when the test ends.
func launch(t *testing.T, data string, env []string, flags ...string) *process.Server {
	t.Helper()
	life, end := context.WithCancel(context.Background())
	server, err := process.Launch(life, process.Config{
		Binary: binary, Env: env,
		Args: append([]string{"--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", "0s"}, flags...),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		end()
		<-server.Exited()
	})
	ctx, cancel := context.WithTimeout(life, patience)
	defer cancel()
	require.NoError(t, server.Ready(ctx))
	return server
}

// stop sends a signal and requires exit code 0.
func stop(t *testing.T, server *process.Server, signal os.Signal) {
	t.Helper()
	require.NoError(t, server.Signal(signal))
	requireCleanExit(t, server)
}

func requireCleanExit(t *testing.T, server *process.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	state, err := server.Wait(ctx)
	require.NoError(t, err)
	require.Zero(t, state.ExitCode(), server.Log())
}

// refuse runs `picomq serve`, which must refuse to, and returns its exit code
// and all that it said.
func refuse(t *testing.T, env []string, flags ...string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append([]string{"serve"}, flags...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir = t.TempDir()
	output, err := cmd.CombinedOutput()
	require.NoError(t, context.Cause(ctx), "it served: %s", output)
	require.Error(t, err, "it served: %s", output)
	return cmd.ProcessState.ExitCode(), string(output)
}

// requireOneLine requires a message of one line.
func requireOneLine(t *testing.T, said string) {
	t.Helper()
	require.Equal(t, 1, strings.Count(said, "\n"), said)
	require.True(t, strings.HasPrefix(said, "picomq: "), said)
}
