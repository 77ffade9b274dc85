package main

import (
	"context"
	"database/sql"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestALogThatTakesNothingIsNotReady, also while nobody appends, and is ready again
// by itself. A transaction that stays open does to the log what a full disk does.
func TestALogThatTakesNothingIsNotReady(t *testing.T) {
	t.Parallel() // it takes as long as a log may before readiness fails
	data := t.TempDir()
	server := launch(t, data, nil)
	call(t, http.MethodPut, server.URL+"/s", "text/plain", "before").require(t, http.StatusCreated)
	db, err := sql.Open("sqlite", filepath.Join(data, logFile))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		answer := call(t, http.MethodGet, server.AdminURL+"/ready", "", "")
		return answer.status == http.StatusServiceUnavailable && strings.Contains(answer.body, "the log has taken nothing for")
	}, patience, 10*time.Millisecond)
	require.Equal(t, "before", call(t, http.MethodGet, server.URL+"/s?seq=0&format=raw", "", "").body, "what is there is read")
	_, err = db.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return server.IsReady(t.Context()) }, patience, 10*time.Millisecond)
	call(t, http.MethodPost, server.URL+"/s", "text/plain", "after").require(t, http.StatusOK)
	stop(t, server, syscall.SIGTERM)
}

// TestANodeThatRegisteredAnewIsHeardAtOnce, not when its next heartbeat is due.
func TestANodeThatRegisteredAnewIsHeardAtOnce(t *testing.T) {
	n, err := startNode(t.Context(), configOf(t, "--storage", "mem://"), "")
	require.NoError(t, err)
	defer n.stop(t.Context())
	n.cancel()
	n.background.Wait()

	ctx, end := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() { n.heartbeat(ctx, time.Hour) })
	defer beating.Wait()
	defer end()
	anew := *n.standing.now.Load()
	for range 3 {
		anew.Epoch++
		n.standing.rejoined(anew)
		require.Eventually(t, func() bool {
			beats, err := n.log.Heartbeats(ctx)
			return err == nil && len(beats) == 1 && beats[0].Epoch == anew.Epoch
		}, patience, time.Millisecond)
	}
}
