package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// TestTheDatabaseStopsAndStarts: while it is away the node is not ready, and what
// it acknowledged or not is so afterwards, each record once.
func TestTheDatabaseStopsAndStarts(t *testing.T) {
	d, bucket := sqllogtest.StartServer(t), t.TempDir()
	nodes := []string{launchNode(t, d.URL, bucket).URL}
	second := launchNode(t, d.URL, bucket)
	nodes = append(nodes, second.URL)
	call(t, http.MethodPut, nodes[0]+"/s", "text/plain", "").require(t, http.StatusCreated)
	seq := 0
	write := func() {
		record := fmt.Sprintf("<%d>", seq)
		require.Eventually(t, func() bool { return appendOnce(t, nodes[seq%2]+"/s", "p", seq, record) }, patience, time.Millisecond)
		seq++
	}
	for _, outage := range []struct {
		begin func() error
		long  bool // enough for nodes not to be ready
	}{{d.Crash, false}, {d.Stop, true}} {
		for range 10 {
			write()
		}
		require.NoError(t, outage.begin())
		if outage.long {
			require.Eventually(t, func() bool { return !second.IsReady(t.Context()) }, patience, 10*time.Millisecond, "readiness tells")
		}
		require.NoError(t, d.Start(t.Context()))
		for range 10 {
			write()
		}
		require.Eventually(t, func() bool { return second.IsReady(t.Context()) }, patience, 10*time.Millisecond)
	}
	all := call(t, http.MethodGet, nodes[1]+"/s?format=raw&limit=10000&seq=0", "", "")
	all.require(t, http.StatusOK)
	want := &strings.Builder{}
	for i := range seq {
		fmt.Fprintf(want, "<%d>", i)
	}
	require.Equal(t, want.String(), all.body)
}

// TestADatabaseThatLostItsLastCommitsIsNoticed, by the nodes that run and by those
// that start, before anything is served or deleted.
func TestADatabaseThatLostItsLastCommitsIsNoticed(t *testing.T) {
	d, bucket := sqllogtest.StartServer(t), t.TempDir()
	server := launchNode(t, d.URL, bucket)
	call(t, http.MethodPut, server.URL+"/s", "text/plain", "").require(t, http.StatusCreated)
	for seq := range 5 {
		require.Eventually(t, func() bool { return appendOnce(t, server.URL+"/s", "p", seq, "early") }, patience, time.Millisecond)
	}
	require.NoError(t, d.Stop())
	require.NoError(t, d.Copy(t.Context(), "older"))
	require.NoError(t, d.Start(t.Context()))
	seq := 5
	for range 5 {
		require.Eventually(t, func() bool { return appendOnce(t, server.URL+"/s", "p", seq, "late") }, patience, time.Millisecond)
		seq++
	}
	objects := segments(t, bucket)
	require.NoError(t, d.Crash())
	require.NoError(t, d.Restore(t.Context(), "older"))
	require.NoError(t, d.Start(t.Context()))
	state, err := server.Wait(t.Context())
	require.NoError(t, err)
	require.NotZero(t, state.ExitCode())
	require.Contains(t, server.Log(), "the log lost rows that were applied")
	require.Contains(t, server.Log(), "are gone")

	code, said := refuse(t, nil, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--meta-url", d.URL, "--storage", "file://"+bucket)
	require.Equal(t, 1, code)
	requireOneLine(t, said)
	require.Contains(t, said, "the log lost rows that were applied")
	require.Equal(t, objects, segments(t, bucket), "nothing was deleted, or written")
}

// segments lists the segments in a bucket.
func segments(t *testing.T, bucket string) (list []string) {
	for _, name := range contents(t, bucket) {
		if strings.HasSuffix(name, ".seg") {
			list = append(list, name)
		}
	}
	return list
}

// TestCutConnections: sessions that an administrator ends cost nobody a record.
func TestCutConnections(t *testing.T) {
	d, bucket := sqllogtest.StartServer(t), t.TempDir()
	server := launchNode(t, d.URL, bucket)
	call(t, http.MethodPut, server.URL+"/s", "text/plain", "").require(t, http.StatusCreated)
	want := &strings.Builder{}
	for seq := range 30 {
		if seq%5 == 0 {
			_, err := d.Query(t.Context(), "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'picomq'")
			require.NoError(t, err)
		}
		record := fmt.Sprintf("<%d>", seq)
		want.WriteString(record)
		require.Eventually(t, func() bool { return appendOnce(t, server.URL+"/s", "p", seq, record) }, patience, time.Millisecond)
	}
	require.Equal(t, want.String(), call(t, http.MethodGet, server.URL+"/s?format=raw&limit=1000&seq=0", "", "").body)
	stop(t, server, syscall.SIGTERM)
}
