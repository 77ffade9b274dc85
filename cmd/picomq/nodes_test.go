package main

import (
	"encoding/json"
	"fmt"
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
	t.Parallel() // it takes as long as the node drains
	database, bucket := sqllogtest.Postgres(t).URL, t.TempDir()
	stays := launchNode(t, database, bucket)
	leaves := launchNode(t, database, bucket, "--drain", "10s")
	requireLog(t, leaves, "node=2 ")
	call(t, http.MethodPut, leaves.URL+"/s", "text/plain", "").require(t, http.StatusCreated)
	require.NoError(t, leaves.Signal(syscall.SIGTERM))
	requireNotReady(t, leaves)
	require.Equal(t, "not ready: draining\n", call(t, http.MethodGet, leaves.AdminURL+"/ready", "", "").body)
	call(t, http.MethodPost, leaves.URL+"/s", "text/plain", "while it drains").require(t, http.StatusOK)
	requireCleanExit(t, leaves)
	require.Equal(t, "while it drains", call(t, http.MethodGet, stays.URL+"/s?seq=0&format=raw", "", "").body)

	next := launchNode(t, database, bucket)
	requireLog(t, next, "node=2 ")
	stop(t, next, syscall.SIGTERM)
	stop(t, stays, syscall.SIGTERM)
}

// TestEveryNodeTellsOfAll: what a node tells of the cluster, and that one left.
func TestEveryNodeTellsOfAll(t *testing.T) {
	database, bucket := sqllogtest.Postgres(t).URL, t.TempDir()
	stays := launchNode(t, database, bucket, "--cluster-id", "blue")
	leaves := launchNode(t, database, bucket, "--drain", "0s")
	nodes := func() (told wire.Cluster) {
		answer := call(t, http.MethodGet, stays.AdminURL+"/cluster", "", "")
		answer.require(t, http.StatusOK)
		require.NoError(t, json.Unmarshal([]byte(answer.body), &told))
		return told
	}
	require.Eventually(t, func() bool { // heartbeats come after the start
		told := nodes()
		return len(told.Nodes) == 2 && told.Nodes[0].State == wire.NodeLive && told.Nodes[1].State == wire.NodeLive && len(told.Leases) > 0
	}, patience, 20*time.Millisecond)
	told := nodes()
	require.Equal(t, "blue", told.Label)
	require.Equal(t, uint32(1), told.Node)
	require.LessOrEqual(t, *told.Nodes[1].Applied, told.Head)
	require.Equal(t, told.Head-*told.Nodes[1].Applied, *told.Nodes[1].Behind)
	require.Equal(t, told.Head-*told.Nodes[0].Applied, *told.Nodes[0].Behind)
	stop(t, leaves, syscall.SIGTERM)
	var left wire.Node
	require.Eventually(t, func() bool { // the node that is asked may come to it later
		left = nodes().Nodes[1]
		return left.State == wire.NodeGone
	}, patience, 20*time.Millisecond)
	require.Nil(t, left.Applied)
	require.Nil(t, left.Behind)
	require.Nil(t, left.BeatMs)
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

// TestANodeReadsWhatAnotherHasInMemory: not the bucket, as long as the node which
// wrote it answers.
func TestANodeReadsWhatAnotherHasInMemory(t *testing.T) {
	database, bucket := sqllogtest.Postgres(t).URL, t.TempDir()
	peers := []string{"--cluster-listen", "127.0.0.1:0", "--cluster-secret", "among us"}
	writes := launchNode(t, database, bucket, peers...)
	reads := launchNode(t, database, bucket, peers...)
	stranger := launchNode(t, database, bucket, "--cluster-secret", "something else")
	read := func(node *process.Server, name string) {
		require.Equal(t, "in memory", call(t, http.MethodGet, node.URL+name+"?seq=0&format=raw", "", "").body)
	}
	for _, node := range []*process.Server{writes, reads} {
		requireLog(t, node, "cluster-listen=127.0.0.1:")
		requireLog(t, node, "advertise=http://127.0.0.1:")
		requireLog(t, node, "log=postgres")
	}
	metric := func(name string) int { return metricOf(t, reads, name) }
	begun := time.Now()
	for i := 0; metric("picomq_peer_hits_total") == 0; i++ {
		// On a busy machine an answer may come too late, which counts as an error.
		require.Equal(t, i > 0, metric("picomq_peer_errors_total") > 0, "the node is asked before the bucket is")
		require.Less(t, time.Since(begun), patience)
		name := fmt.Sprint("/s", i)
		call(t, http.MethodPut, writes.URL+name, "text/plain", "in memory").require(t, http.StatusCreated)
		fetches := metric("picomq_bucket_fetches_total")
		for range 3 {
			read(reads, name)
		}
		if metric("picomq_peer_hits_total") > 0 {
			require.Equal(t, 1, metric("picomq_peer_hits_total"), "once for all reads")
			require.Equal(t, fetches, metric("picomq_bucket_fetches_total"))
		}
	}
	for range 3 {
		read(stranger, "/s0")
	}
	require.Equal(t, 1, metricOf(t, stranger, "picomq_peer_errors_total"))
	require.Equal(t, 1, metricOf(t, stranger, "picomq_bucket_fetches_total"))

	call(t, http.MethodPut, writes.URL+"/t", "text/plain", "in the bucket").require(t, http.StatusCreated)
	require.NoError(t, writes.Kill())
	<-writes.Exited()
	failed := metric("picomq_peer_errors_total")
	require.Equal(t, "in the bucket", call(t, http.MethodGet, reads.URL+"/t?seq=0&format=raw", "", "").body)
	require.Equal(t, failed+1, metric("picomq_peer_errors_total"))
}

// metricOf is the value of a metric without labels.
func metricOf(t *testing.T, server *process.Server, name string) int {
	t.Helper()
	for line := range strings.Lines(call(t, http.MethodGet, server.AdminURL+"/metrics", "", "").body) {
		if found, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.Atoi(strings.TrimSpace(found))
			require.NoError(t, err, name)
			return value
		}
	}
	require.Fail(t, "there is no metric "+name)
	return 0
}

// TestHowNodesReachEachOther is checked before anything is started.
func TestHowNodesReachEachOther(t *testing.T) {
	valid := config{clusterListen: "10.0.0.1:4439", clusterSecret: "x"}
	require.NoError(t, valid.validatePeers())
	valid.clusterListen, valid.advertise = ":4439", "https://node-1.internal:443/picomq"
	require.NoError(t, valid.validatePeers())
	require.NoError(t, (&config{clusterSecret: "x"}).validatePeers(), "it asks and is not asked")
	for _, test := range []struct {
		c    config
		flag string
	}{
		{config{clusterListen: "10.0.0.1:1"}, "PICOMQ_CLUSTER_SECRET"},
		{config{clusterListen: "10.0.0.1", clusterSecret: "x"}, "--cluster-listen"},
		{config{clusterListen: ":4439", clusterSecret: "x"}, "--advertise"},
		{config{clusterListen: "0.0.0.0:4439", clusterSecret: "x"}, "--advertise"},
		{config{clusterListen: "[::]:4439", clusterSecret: "x"}, "--advertise"},
		{config{clusterListen: "node-1:4439", clusterSecret: "x"}, "--advertise"},
		{config{clusterListen: ":1", clusterSecret: "x", advertise: "10.0.0.1:1"}, "--advertise"},
		{config{clusterListen: ":1", clusterSecret: "x", advertise: "ftp://x"}, "--advertise"},
		{config{clusterListen: ":1", clusterSecret: "x", advertise: "http://"}, "--advertise"},
		{config{clusterListen: ":1", clusterSecret: "x", advertise: "http://a:b@x"}, "--advertise"},
		{config{clusterListen: ":1", clusterSecret: "x", advertise: "http://x?y"}, "--advertise"},
		{config{advertise: "http://10.0.0.1:1"}, "--advertise"},
	} {
		require.ErrorContains(t, test.c.validatePeers(), test.flag, "%+v", test.c)
	}
}

// requireLog waits until a server has logged a text.
func requireLog(t *testing.T, server *process.Server, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(server.Log(), text) }, patience, 10*time.Millisecond, "no %q", text)
}
