package main

import (
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/internal/process"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// TestANodeDrainsAndLeaves: told to end, it is not ready at once, serves for a
// while, and leaves; its number is free then.
func TestANodeDrainsAndLeaves(t *testing.T) {
	database, bucket := sqllogtest.Postgres(t).URL, t.TempDir()
	stays := launchNode(t, database, bucket)
	leaves := launchNode(t, database, bucket, "--drain", "3s")
	requireLog(t, leaves, "node=2 ")
	call(t, http.MethodPut, leaves.URL+"/s", "text/plain", "").require(t, http.StatusCreated)
	require.NoError(t, leaves.Signal(syscall.SIGTERM))
	requireNotReady(t, leaves)
	call(t, http.MethodPost, leaves.URL+"/s", "text/plain", "while it drains").require(t, http.StatusOK)
	requireCleanExit(t, leaves)
	require.Equal(t, "while it drains", call(t, http.MethodGet, stays.URL+"/s?seq=0&format=raw", "", "").body)

	next := launchNode(t, database, bucket)
	requireLog(t, next, "node=2 ")
	stop(t, next, syscall.SIGTERM)
	stop(t, stays, syscall.SIGTERM)
}

// TestANodeThatWasFrozenComesBack: it was stopped for longer than the timeout, and
// its number given to another. Woken, it registers anew, and what it was asked
// meanwhile is done once.
func TestANodeThatWasFrozenComesBack(t *testing.T) {
	database, bucket := sqllogtest.Postgres(t).URL, t.TempDir()
	frozen := launchNode(t, database, bucket, "--node-timeout", "5s")
	holder := launchNode(t, database, bucket, "--node-timeout", "5s")
	call(t, http.MethodPut, frozen.URL+"/s", "text/plain", "first\n").require(t, http.StatusCreated)
	require.NoError(t, frozen.Signal(syscall.SIGSTOP))
	asked := later(func() reply { return call(t, http.MethodPost, frozen.URL+"/s", "text/plain", "asked\n") })
	requireLog(t, holder, "taken for gone")
	stranger := launchNode(t, database, bucket, "--node-timeout", "5s")
	requireLog(t, stranger, "node=1 ")

	require.NoError(t, frozen.Signal(syscall.SIGCONT))
	answer := <-asked
	answer.require(t, http.StatusOK)
	requireLog(t, frozen, "goes on under another epoch")
	call(t, http.MethodPost, frozen.URL+"/s", "text/plain", "again\n").require(t, http.StatusOK)
	for _, node := range []*process.Server{stranger, holder, frozen} {
		require.Equal(t, "first\nasked\nagain\n", call(t, http.MethodGet, node.URL+"/s?seq=0&format=raw", "", "").body)
	}
	next, err := strconv.Atoi(answer.header.Get(wire.PicoNextSeq))
	require.NoError(t, err)
	require.Equal(t, 2, next)
	for _, node := range []*process.Server{frozen, stranger, holder} {
		stop(t, node, syscall.SIGTERM)
	}
}

// TestASecondProcessOfANumberEndsTheFirst, which says so.
func TestASecondProcessOfANumberEndsTheFirst(t *testing.T) {
	database, bucket := sqllogtest.Postgres(t).URL, t.TempDir()
	first := launchNode(t, database, bucket, "--node-id", "3")
	second := launchNode(t, database, bucket, "--node-id", "3")
	state, err := first.Wait(t.Context())
	require.NoError(t, err)
	require.NotZero(t, state.ExitCode())
	require.Contains(t, first.Log(), "registered as node 3")
	require.Contains(t, first.Log(), "give each process its own --data or --node-id")
	call(t, http.MethodPut, second.URL+"/s", "text/plain", "").require(t, http.StatusCreated)
	stop(t, second, syscall.SIGTERM)
}

// requireLog waits until a server has logged a text.
func requireLog(t *testing.T, server *process.Server, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(server.Log(), text) }, patience, 10*time.Millisecond, "no %q", text)
}
