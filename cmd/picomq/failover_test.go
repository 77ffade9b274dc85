package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/internal/postgres"
	"github.com/picomq/picomq/internal/process"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// eitherOf is the URL of whichever of two servers takes writes.
func eitherOf(a, b *postgres.Server) string {
	return postgres.URL(a.Address+","+b.Address) + "&target_session_attrs=read-write"
}

// TestASynchronousStandbyTakesOver: nothing that was acknowledged is lost, and
// appends, readers and readiness come back by themselves. They stay with it when
// the old primary, the first in the URL, is back.
func TestASynchronousStandbyTakesOver(t *testing.T) {
	t.Parallel() // it takes as long as a log may before readiness fails
	primary := sqllogtest.StartServer(t)
	standby := sqllogtest.StartStandby(t, primary, "standby")
	url, bucket := eitherOf(primary, standby), t.TempDir()
	requireRefusal(t, eitherOf(standby, standby), bucket, "the server is a standby")
	require.NoError(t, primary.Synchronize(t.Context(), standby))
	nodes := []*process.Server{launchNode(t, url, bucket), launchNode(t, url, bucket)}
	call(t, http.MethodPut, nodes[0].URL+"/s", "text/plain", "").require(t, http.StatusCreated)
	w, readers := startWriters(t, nodes), startReaders(t, nodes)
	w.awaitMore(t, 20)

	require.NoError(t, primary.Kill())
	for _, node := range nodes {
		requireNotReady(t, node)
	}
	require.NoError(t, standby.Promote(t.Context()))
	w.awaitMore(t, 20)
	for _, node := range nodes {
		require.Eventually(t, func() bool { return node.IsReady(t.Context()) }, patience, 10*time.Millisecond)
		requireLog(t, node, "listening for appends again")
	}

	require.NoError(t, primary.Start(t.Context()))
	require.NoError(t, primary.Configure(t.Context(), "synchronous_standby_names", "")) // it takes writes, alone
	for range 3 {
		disconnect(t, standby)
		w.awaitMore(t, 20)
	}
	w.stop()
	all := w.requireWritten(t, nodes[1])
	for _, r := range readers {
		require.Eventually(t, func() bool { return len(r.text()) >= len(all) }, patience, 10*time.Millisecond)
		require.Equal(t, all, r.text(), "without gap or repeat")
	}
	for _, node := range nodes {
		stop(t, node, syscall.SIGTERM)
	}
}

// disconnect ends the nodes' connections to a server.
func disconnect(t *testing.T, server *postgres.Server) {
	t.Helper()
	_, err := server.Query(t.Context(), "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'picomq'")
	require.NoError(t, err)
}

// TestAStandbyThatLacksCommitsIsRefused by the nodes that run and by those that
// start, before anything is served or deleted; and all is there again with the old
// primary.
func TestAStandbyThatLacksCommitsIsRefused(t *testing.T) {
	t.Parallel() // most of it is waiting
	primary := sqllogtest.StartServer(t)
	standby := sqllogtest.StartStandby(t, primary, "standby")
	url, bucket := eitherOf(primary, standby), t.TempDir()
	nodes := []*process.Server{launchNode(t, url, bucket), launchNode(t, url, bucket)}
	call(t, http.MethodPut, nodes[0].URL+"/s", "text/plain", "").require(t, http.StatusCreated)
	write := func(first int, record string) {
		for seq := first; seq < first+6; seq++ {
			require.True(t, appendOnce(t, nodes[seq%2].URL+"/s", "p", seq, record))
		}
	}
	write(0, "early ")
	require.NoError(t, standby.Detach(t.Context()))
	write(6, "late ")
	want, objects := content(t, nodes[0]), segments(t, bucket)

	require.NoError(t, primary.Kill())
	require.NoError(t, standby.Promote(t.Context()))
	for _, node := range nodes {
		requireLostTail(t, node)
	}
	requireRefusal(t, url, bucket, "the log lost rows that were applied")
	require.Equal(t, objects, segments(t, bucket), "nothing was deleted, or written")

	// What the operator is told to do: bring those commits back...
	require.NoError(t, standby.Stop())
	require.NoError(t, primary.Start(t.Context()))
	node := launchNode(t, url, bucket)
	require.Equal(t, want, content(t, node))
	stop(t, node, syscall.SIGTERM)
	require.NoError(t, primary.Stop())

	// ... or go on without them, with a copy of the bucket that has no marks.
	require.NoError(t, standby.Start(t.Context()))
	copied := filepath.Join(t.TempDir(), "bucket")
	require.NoError(t, os.CopyFS(copied, os.DirFS(bucket)))
	marks, err := filepath.Glob(copied + "/*/0000/applied")
	require.NoError(t, err)
	require.Len(t, marks, 1)
	require.NoError(t, os.RemoveAll(marks[0]))
	node = launchNode(t, url, copied)
	require.Equal(t, strings.Repeat("early ", 6), content(t, node))
	call(t, http.MethodPost, node.URL+"/s", "text/plain", "after").require(t, http.StatusOK)
	stop(t, node, syscall.SIGTERM)
}

// requireRefusal requires that a node does not start, and says why in one line.
func requireRefusal(t *testing.T, database, bucket, why string) {
	t.Helper()
	code, said := refuse(t, nil, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--meta-url", database, "--storage", "file://"+bucket)
	require.Equal(t, 1, code)
	requireOneLine(t, said)
	require.Contains(t, said, why)
}

// requireLostTail requires that a node ended by itself, because the log lost rows,
// and said so once.
func requireLostTail(t *testing.T, node *process.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	state, err := node.Wait(ctx)
	require.NoError(t, err)
	require.NotZero(t, state.ExitCode())
	_, last, found := strings.Cut(node.Log(), "\npicomq: ")
	require.True(t, found, node.Log())
	require.Contains(t, last, "the log lost rows that were applied")
	require.Equal(t, 1, strings.Count(last, "\n"), last)
}

// TestTwoPrimariesAreNotMixed: a standby was promoted while its primary lives, and
// each has a node. What either acknowledged stays apart, and the node that finds
// its own missing ends.
func TestTwoPrimariesAreNotMixed(t *testing.T) {
	t.Parallel() // most of it is waiting
	primary := sqllogtest.StartServer(t)
	standby := sqllogtest.StartStandby(t, primary, "standby")
	bucket := t.TempDir()
	stays := launchNode(t, eitherOf(primary, standby), bucket)
	call(t, http.MethodPut, stays.URL+"/s", "text/plain", "both ").require(t, http.StatusCreated)
	position, err := primary.Query(t.Context(), "SELECT pg_current_wal_lsn()::text")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		has, err := standby.Query(t.Context(), "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn", position)
		return err == nil && has == "true"
	}, patience, 10*time.Millisecond)
	require.NoError(t, standby.Promote(t.Context()))
	moves := launchNode(t, eitherOf(standby, primary), bucket)
	for i := range 5 {
		require.True(t, appendOnce(t, stays.URL+"/s", "old", i, "old "))
		require.True(t, appendOnce(t, moves.URL+"/s", "new", i, "new "))
	}
	require.Equal(t, "both "+strings.Repeat("old ", 5), content(t, stays))
	require.Equal(t, "both "+strings.Repeat("new ", 5), content(t, moves))

	require.NoError(t, primary.Kill())
	requireLostTail(t, stays)
	require.True(t, appendOnce(t, moves.URL+"/s", "new", 5, "new "))
	require.Equal(t, "both "+strings.Repeat("new ", 6), content(t, moves))
	requireRefusal(t, eitherOf(primary, standby), bucket, "the log lost rows that were applied")
	stop(t, moves, syscall.SIGTERM)
}

// content is all of the stream that these tests write.
func content(t *testing.T, node *process.Server) string {
	t.Helper()
	answer := call(t, http.MethodGet, node.URL+"/s?format=raw&limit=100000&seq=0", "", "")
	answer.require(t, http.StatusOK)
	return answer.body
}

// writers append to one stream, each through a node of its own and as a producer
// that repeats what was not acknowledged.
type writers struct {
	writers []*writer
	stop    func() // when what is under way was acknowledged
}

type writer struct{ acknowledged atomic.Int64 }

func startWriters(t *testing.T, nodes []*process.Server) *writers {
	var working sync.WaitGroup
	var over atomic.Bool
	w := &writers{stop: sync.OnceFunc(func() { over.Store(true); working.Wait() })}
	for i, node := range nodes {
		one := &writer{}
		w.writers = append(w.writers, one)
		working.Go(func() {
			for seq := 0; !over.Load() && t.Context().Err() == nil; seq++ {
				for !appendOnce(t, node.URL+"/s", fmt.Sprint("p", i), seq, fmt.Sprintf("<%d:%d>", i, seq)) {
					if t.Context().Err() != nil {
						return
					}
					time.Sleep(time.Millisecond)
				}
				one.acknowledged.Add(1)
			}
		})
	}
	t.Cleanup(w.stop)
	return w
}

// awaitMore waits until each got so many more records acknowledged.
func (w *writers) awaitMore(t *testing.T, records int64) {
	t.Helper()
	for i, one := range w.writers {
		want := one.acknowledged.Load() + records
		require.Eventually(t, func() bool { return one.acknowledged.Load() >= want }, patience, time.Millisecond, "writer %d", i)
	}
}

// requireWritten requires that what was acknowledged is there once, and each
// writer's in order. It returns all that is there.
func (w *writers) requireWritten(t *testing.T, node *process.Server) string {
	t.Helper()
	all := content(t, node)
	for i, one := range w.writers {
		place := 0
		for seq := range one.acknowledged.Load() {
			record := fmt.Sprintf("<%d:%d>", i, seq)
			require.Equal(t, 1, strings.Count(all, record), record)
			require.GreaterOrEqual(t, strings.Index(all, record), place, "in order")
			place = strings.Index(all, record)
		}
	}
	return all
}

// reader follows a stream by events.
type reader struct {
	mu   sync.Mutex
	seen strings.Builder // guarded by mu
}

func (r *reader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen.String()
}

func startReaders(t *testing.T, nodes []*process.Server) (list []*reader) {
	for _, node := range nodes {
		c, err := client.New(node.URL, client.Options{})
		require.NoError(t, err)
		r := &reader{}
		list = append(list, r)
		ctx, cancel := context.WithCancel(t.Context())
		var reading sync.WaitGroup
		reading.Go(func() {
			for chunk, err := range c.Tail(ctx, "s", client.TailRequest{Live: client.LiveEvents}) {
				if err != nil {
					return // the test looks at what came
				}
				r.mu.Lock()
				for _, record := range chunk.Records {
					r.seen.Write(record.Body)
				}
				r.mu.Unlock()
			}
		})
		t.Cleanup(func() { cancel(); reading.Wait() })
	}
	return list
}
