package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/internal/process"
)

// TestASignalDrains: with an append under way, a long poll parked and an event
// stream open, a signal fails readiness, lets the append finish, answers the
// poll, ends the events and exits with 0; what was acknowledged is there after.
func TestASignalDrains(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			data := t.TempDir()
			server := launch(t, data, nil, "--long-poll-timeout", "10m", "--sse-max-duration", "10m")
			call(t, http.MethodPut, server.URL+"/s", "text/plain", "").require(t, http.StatusCreated)
			call(t, http.MethodPut, server.URL+"/quiet", "text/plain", "").require(t, http.StatusCreated)
			poll := later(func() reply { return call(t, http.MethodGet, server.URL+"/quiet?seq=0&live=long-poll", "", "") })
			events := later(func() reply { return call(t, http.MethodGet, server.URL+"/quiet?seq=0&live=sse", "", "") })
			requireWaiting(t, server, 2)
			slow := beginAppend(t, server, "/s", "slow")

			require.NoError(t, server.Signal(signal))
			requireNotReady(t, server)
			polled := <-poll
			polled.require(t, http.StatusNoContent)
			require.Equal(t, "0", polled.header.Get(wire.PicoNextSeq), "the client may go on where it was")
			ended := <-events
			ended.require(t, http.StatusOK)
			require.Contains(t, ended.body, "event: control")
			require.True(t, strings.HasSuffix(ended.body, "\n\n"), "whole events: %q", ended.body)

			require.Equal(t, http.StatusOK, slow.finish(t), "an append under way finishes")
			requireCleanExit(t, server)

			again := launch(t, data, nil)
			require.Equal(t, "slow", call(t, http.MethodGet, again.URL+"/s?seq=0&format=raw", "", "").body)
			stop(t, again, signal)
		})
	}
}

// TestASecondSignalEndsADrain: whoever cannot wait for slow clients asks again.
func TestASecondSignalEndsADrain(t *testing.T) {
	server := launch(t, t.TempDir(), nil)
	call(t, http.MethodPut, server.URL+"/s", "text/plain", "").require(t, http.StatusCreated)
	_ = beginAppend(t, server, "/s", "never sent")
	require.NoError(t, server.Signal(os.Interrupt))
	requireNotReady(t, server)
	require.NoError(t, server.Signal(os.Interrupt))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	state, err := server.Wait(ctx)
	require.NoError(t, err)
	require.NotZero(t, state.ExitCode(), "it waited for the request, or did not end cleanly and does not say so")
}

// slowAppend is an append whose body has not been sent.
type slowAppend struct {
	conn   net.Conn
	answer *bufio.Reader
	body   string
}

// beginAppend sends the head of an append and returns once the server waits for
// the body, which its 100 Continue shows.
func beginAppend(t *testing.T, server *process.Server, path, body string) *slowAppend {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: picomq\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, len(body))
	require.NoError(t, err)
	answer := bufio.NewReader(conn)
	line, err := answer.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue")
	_, err = answer.ReadString('\n')
	require.NoError(t, err)
	return &slowAppend{conn: conn, answer: answer, body: body}
}

// finish sends the body and returns the status of the answer.
func (a *slowAppend) finish(t *testing.T) int {
	t.Helper()
	_, err := io.WriteString(a.conn, a.body)
	require.NoError(t, err)
	response, err := http.ReadResponse(a.answer, nil)
	require.NoError(t, err)
	defer response.Body.Close()
	return response.StatusCode
}

// requireNotReady waits until the server, which still lives, says that it is
// not ready.
func requireNotReady(t *testing.T, server *process.Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		return call(t, http.MethodGet, server.AdminURL+"/ready", "", "").status == http.StatusServiceUnavailable
	}, patience, time.Millisecond, "readiness fails while requests drain")
}

// requireWaiting waits until so many readers are parked.
func requireWaiting(t *testing.T, server *process.Server, readers int) {
	t.Helper()
	metric := fmt.Sprintf("\npicomq_waiting_readers %d\n", readers)
	require.Eventually(t, func() bool {
		return strings.Contains(call(t, http.MethodGet, server.AdminURL+"/metrics", "", "").body, metric)
	}, patience, time.Millisecond)
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r reply) require(t *testing.T, status int) {
	t.Helper()
	require.NoError(t, r.err)
	require.Equal(t, status, r.status, r.body)
}

// call sends a request and reads the whole answer. An answer that is cut off
// is an error.
func call(t *testing.T, method, url, contentType, body string) reply {
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return reply{err: err}
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{status: response.StatusCode, header: response.Header, body: string(text), err: err}
}

// later does something on a goroutine of its own.
func later(do func() reply) <-chan reply {
	done := make(chan reply, 1)
	go func() { done <- do() }()
	return done
}
