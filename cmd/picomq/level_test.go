package main

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/process"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// TestReleasesFollowEachOther: old and new run side by side under the rules of the
// old. When the last old one is gone the new rules come into force, and an old one
// is refused with the release it needs.
func TestReleasesFollowEachOther(t *testing.T) {
	next, err := process.Build(t.Context(), t.TempDir(), "nextlevel")
	require.NoError(t, err)
	d, bucket := sqllogtest.Postgres(t), t.TempDir()
	launchNext := func() *process.Server {
		server, err := process.Launch(t.Context(), process.Config{Binary: next, Args: []string{
			"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--meta-url", d.URL, "--storage", "file://" + bucket,
			"--node-timeout", "15s",
		}})
		require.NoError(t, err)
		require.NoError(t, server.Ready(t.Context()))
		return server
	}
	create := func(server *process.Server, name string) int {
		return call(t, http.MethodPut, server.URL+"/"+name, "text/plain", "").status
	}
	leaving, dying := launchNode(t, d.URL, bucket, "--node-timeout", "15s"), launchNode(t, d.URL, bucket, "--node-timeout", "15s")
	newer, newest := launchNext(), launchNext()
	require.Equal(t, http.StatusCreated, create(newer, "level-one-a"), "the rules of the old")
	require.Equal(t, http.StatusCreated, create(leaving, "level-one-b"))
	stop(t, leaving, syscall.SIGTERM)
	require.Equal(t, http.StatusCreated, create(newest, "level-one-c"), "another is there")
	require.NoError(t, dying.Kill())

	attempt := 0
	require.Eventually(t, func() bool {
		attempt++
		return create(newer, fmt.Sprintf("level-one-x%d", attempt)) != http.StatusCreated
	}, patience, 50*time.Millisecond, "the new rules are in force")
	require.NotEqual(t, http.StatusCreated, create(newest, "level-one-d"), "on every node")
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, newest.URL+"/level-one-a?seq=0", "", "").status, "what was there stays")

	code, said := refuse(t, nil, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--meta-url", d.URL, "--storage", "file://"+bucket)
	require.Equal(t, 1, code)
	requireOneLine(t, said)
	require.Contains(t, said, "feature level 2")
	require.Contains(t, said, "run release")
	for _, server := range []*process.Server{newer, newest} {
		stop(t, server, syscall.SIGTERM)
	}
}
