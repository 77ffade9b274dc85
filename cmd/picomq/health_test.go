package main

import (
	"database/sql"
	"net/http"
	"path/filepath"
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
		return answer.status == http.StatusServiceUnavailable && answer.body != ""
	}, patience, 10*time.Millisecond)
	require.Contains(t, call(t, http.MethodGet, server.AdminURL+"/ready", "", "").body, "the log has taken nothing for")
	require.Equal(t, "before", call(t, http.MethodGet, server.URL+"/s?seq=0&format=raw", "", "").body, "what is there is read")
	_, err = db.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return server.IsReady(t.Context()) }, patience, 10*time.Millisecond)
	call(t, http.MethodPost, server.URL+"/s", "text/plain", "after").require(t, http.StatusOK)
	stop(t, server, syscall.SIGTERM)
}
