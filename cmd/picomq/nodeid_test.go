package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

func TestWhatIsRememberedOfANode(t *testing.T) {
	data := filepath.Join(t.TempDir(), "new")
	w, err := rememberedNode(data, 0)
	require.NoError(t, err)
	require.Zero(t, w)

	incarnation := commands.Incarnation{1, 0xff}
	require.NoError(t, rememberNode(data, 12, incarnation))
	w, err = rememberedNode(data, 0)
	require.NoError(t, err)
	require.Equal(t, wish{number: 12, previous: incarnation}, w)
	w, err = rememberedNode(data, 7)
	require.NoError(t, err)
	require.Equal(t, wish{number: 7}, w, "a number that is forced is taken from whoever has it")

	for text, want := range map[string]wish{"": {}, "3\n": {number: 3}} {
		require.NoError(t, os.WriteFile(filepath.Join(data, nodeFile), []byte(text), 0o600))
		w, err = rememberedNode(data, 0)
		require.NoError(t, err)
		require.Equal(t, want, w)
	}
	for _, text := range []string{"x", "0", "-1", "4294967296", " ", "1 2", "1 " + strings.Repeat("0", 31), "1 " + strings.Repeat("0", 34), "1 2 3"} {
		require.NoError(t, os.WriteFile(filepath.Join(data, nodeFile), []byte(text), 0o600))
		_, err = rememberedNode(data, 0)
		require.ErrorContains(t, err, nodeFile, "%q", text)
	}
}

// TestADataFolderHasOneProcess: a second one is turned away and changes nothing for
// the first; when that was killed, the next one has the folder.
func TestADataFolderHasOneProcess(t *testing.T) {
	database, bucket, data := sqllogtest.Postgres(t).URL, "file://"+t.TempDir(), t.TempDir()
	flags := []string{"--meta-url", database, "--storage", bucket}
	first := launch(t, data, nil, flags...)
	code, said := refuse(t, nil, append([]string{"--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, flags...)...)
	require.Equal(t, 1, code)
	requireOneLine(t, said)
	require.Contains(t, said, data+" is in use by process ")
	call(t, http.MethodPut, first.URL+"/s", "text/plain", "").require(t, http.StatusCreated)
	require.NoError(t, first.Signal(syscall.SIGKILL))
	_, err := first.Wait(t.Context())
	require.NoError(t, err)
	stop(t, launch(t, data, nil, flags...), syscall.SIGTERM)
}

// TestACopiedDataFolderIsAnotherNode: a folder that was copied with its number
// does not take the number from the node that goes on using it; a restart does.
func TestACopiedDataFolderIsAnotherNode(t *testing.T) {
	database, bucket := sqllogtest.Postgres(t).URL, "file://"+t.TempDir()
	data, copied := t.TempDir(), t.TempDir()
	flags := []string{"--meta-url", database, "--storage", bucket}
	first := launch(t, data, nil, flags...)
	requireLog(t, first, "node=1 ")
	text, err := os.ReadFile(filepath.Join(data, nodeFile))
	require.NoError(t, err)
	require.NoError(t, first.Signal(syscall.SIGKILL))
	_, err = first.Wait(t.Context())
	require.NoError(t, err)

	again := launch(t, data, nil, flags...)
	requireLog(t, again, "node=1 ")
	require.NoError(t, os.WriteFile(filepath.Join(copied, nodeFile), text, 0o600))
	copyOfIt := launch(t, copied, nil, flags...)
	requireLog(t, copyOfIt, "node=2 ")
	call(t, http.MethodPut, again.URL+"/s", "text/plain", "").require(t, http.StatusCreated)
	stop(t, copyOfIt, syscall.SIGTERM)
	stop(t, again, syscall.SIGTERM)
}
