package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/picosuite"
)

// serveHere runs `picomq serve` with flags in this process, on a port of its
// choice, until the test ends, and returns its URL.
func serveHere(t *testing.T, flags ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	cmd := serveCommand()
	cmd.SetArgs(append([]string{
		"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin-listen", "", "--log-level", "error",
		"--long-poll-timeout", "10s", "--sse-max-duration", "20s",
	}, flags...))
	cmd.SetOut(write)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, cmd, write) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not start: %v", <-ended)
	}
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return strings.TrimPrefix(strings.TrimSpace(line), "listening on ")
}

func run(ctx context.Context, cmd *cobra.Command, out *io.PipeWriter) error {
	err := cmd.ExecuteContext(ctx)
	_ = out.CloseWithError(err)
	return err
}

func TestPicoWireSuite(t *testing.T) {
	t.Run("HTTP1", func(t *testing.T) {
		t.Parallel() // both wait for the longest of their live reads
		picosuite.Run(t, serveHere(t))
	})
	t.Run("HTTP2", func(t *testing.T) {
		t.Parallel()
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(transport.CloseIdleConnections)
		picosuite.Run(t, serveHere(t), picosuite.Transport(transport))
	})
}

func TestAServerInMemoryStartsAfresh(t *testing.T) {
	for range 2 {
		t.Run("run", func(t *testing.T) {
			url := serveHere(t, "--storage", "mem://")
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/a", strings.NewReader("hello"))
			require.NoError(t, err)
			answer, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusCreated, answer.StatusCode)
			http.DefaultClient.CloseIdleConnections()
		})
	}
}
