package crash

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/internal/process"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// patience turns a hang into a failure.
const patience = 5 * time.Minute

// TestAProcessThatIsFrozenBetweenItsPutAndItsCommit: it is taken for gone, and the
// object that it had put is deleted as an orphan. Its client may retry through
// another node with the same producer sequence. Woken, it answers: the records are
// there, once.
func TestAProcessThatIsFrozenBetweenItsPutAndItsCommit(t *testing.T) {
	binary, err := process.Build(t.Context(), t.TempDir(), "failpoint")
	require.NoError(t, err)
	for name, retried := range map[string]bool{"the client waits": false, "the client asks another node": true} {
		t.Run(name, func(t *testing.T) { testFrozen(t, binary, retried) })
	}
}

func testFrozen(t *testing.T, binary string, retried bool) {
	database, bucket := sqllogtest.Postgres(t).URL, t.TempDir()
	node := func(env string) *process.Server {
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		server, err := process.Launch(ctx, process.Config{Binary: binary, Env: []string{env}, Args: []string{
			"--data", t.TempDir(), "--meta-url", database, "--storage", "file://" + bucket, "--node-timeout", "5s",
			"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", "0s",
		}})
		require.NoError(t, err)
		t.Cleanup(func() {
			cancel()
			<-server.Exited()
		})
		require.NoError(t, server.Ready(ctx))
		return server
	}
	other := node("PICOMQ_HASTE=1") // orphans are collected at once
	frozen := node("PICOMQ_FAILPOINT=freeze-after-put:1")
	status, _, err := ask(t, http.MethodPut, other.URL+"/s", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, status)
	type answer struct {
		status int
		next   string
		err    error
	}
	asked := make(chan answer, 1)
	go func() {
		status, next, err := ask(t, http.MethodPost, frozen.URL+"/s", "x")
		asked <- answer{status, next, err}
	}()
	objects := func() int {
		list, err := filepath.Glob(filepath.Join(bucket, "*", "0000", "wal", "00000002", "*", "*", "*.seg"))
		require.NoError(t, err)
		return len(list)
	}
	departed := func() bool { return strings.Contains(other.Log(), "taken for gone") }
	eventually(t, func() bool { return objects() == 1 || departed() }, "the put")
	eventually(t, departed, "the departure")
	eventually(t, func() bool { return objects() == 0 }, "the collection of the orphan")
	if retried {
		status, next, err := ask(t, http.MethodPost, other.URL+"/s", "x")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "1", next)
	}
	require.NoError(t, frozen.Signal(syscall.SIGCONT))
	a := <-asked
	require.NoError(t, a.err)
	require.Contains(t, []int{http.StatusOK, http.StatusNoContent}, a.status)
	require.Equal(t, "1", a.next)
	for _, server := range []*process.Server{frozen, other} {
		status, body, err := ask(t, http.MethodGet, server.URL+"/s?seq=0&format=raw", "")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "x", body)
	}
}

func eventually(t *testing.T, what func() bool, name string) {
	t.Helper()
	require.Eventually(t, what, patience, 20*time.Millisecond, name)
}

// ask sends a request, an append as the first of a producer, and returns the status
// and, of an append, where the stream goes on, else the body.
func ask(t *testing.T, method, url, body string) (status int, said string, err error) {
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "text/plain")
	if method == http.MethodPost {
		r.Header.Set(wire.PicoProducerID, "p")
		r.Header.Set(wire.PicoProducerEpoch, "0")
		r.Header.Set(wire.PicoProducerSeq, "0")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if method == http.MethodPost {
		return response.StatusCode, response.Header.Get(wire.PicoNextSeq), err
	}
	return response.StatusCode, string(text), err
}
