package replica_test

import (
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/stream"
)

// A log whose node comes and goes, whose rows are archived and truncated while
// more are written, holds about as many rows at the end as at the beginning; and
// what is left of them, with the newest snapshot, is what all of history makes.
func TestTheLogStaysSmall(t *testing.T) {
	sqllogtest.Databases(t, func(t *testing.T, open func(testing.TB) sqllogtest.Log) {
		const (
			rounds = 12
			rows   = 60  // a round
			most   = 250 // kept rows, two snapshots, and what came since: never all 720
		)
		c := newCluster(t)
		var largest int64
		for round := range rounds {
			l := open(t)
			r := startOn(t, c, l)
			for i := range rows {
				d := propose(t, r, create(fmt.Sprintf("%d/%d", round, i)))
				if i%3 == 0 {
					propose(t, r, &commands.Delete{ID: stream.MakeID(0, uint64(round*rows+i+1))})
				}
				if i%20 == 0 {
					require.NoError(t, runJobs(r))
					count, err := l.RowCount(t.Context())
					require.NoError(t, err)
					largest = max(largest, count)
				}
				require.NotZero(t, d.Index)
			}
			r.Close()
			digest, last := replayed(t, c.bucket, l)
			require.Equal(t, last, r.Applied())
			require.Equal(t, digest, r.StateDigest(), "snapshot and tail against all of history")
			require.NoError(t, l.Close())
		}
		l := open(t)
		require.Less(t, largest, int64(most))
		a, err := l.Archive(t.Context())
		require.NoError(t, err)
		require.Greater(t, a.Truncated.Index, commands.Index(rounds*rows/2))
		c.requireArchive(a)
		require.NoError(t, l.Close())
	})
}

// Nodes write while each of them archives and truncates, on one database.
func TestJobsRunWhileRowsAreWritten(t *testing.T) {
	sqllogtest.Databases(t, func(t *testing.T, open func(testing.TB) sqllogtest.Log) {
		c := newCluster(t)
		logs := []sqllogtest.Log{open(t)}
		if !logs[0].Exclusive() {
			logs = append(logs, open(t))
		}
		var nodes []*replica.Replica
		var jobs sync.WaitGroup
		done := make(chan struct{})
		for _, l := range logs {
			r := startOn(t, c, l)
			nodes = append(nodes, r)
			jobs.Go(func() {
				for {
					assert.NoError(t, runJobs(r))
					select {
					case <-done:
						return
					case <-time.After(time.Millisecond):
					}
				}
			})
		}
		for i := range 300 {
			propose(t, nodes[i%len(nodes)], create(fmt.Sprint(i)))
		}
		close(done)
		jobs.Wait()
		for _, r := range nodes {
			r.Close()
			require.ErrorContains(t, r.Err(), "stopping", "none was overtaken")
		}
		a := archiveRecord(t, logs[0])
		require.NotZero(t, a.Truncated.Index)
		c.requireArchive(a)
		digest, last := replayed(t, c.bucket, logs[0])
		for _, r := range nodes {
			if r.Applied() == last {
				require.Equal(t, digest, r.StateDigest())
			}
		}
		for _, l := range logs {
			require.NoError(t, l.Close())
		}
	})
}

// startOn is start for a log that must be closed after its replica.
func startOn(t *testing.T, c *cluster, l replica.Log) *replica.Replica {
	t.Helper()
	cfg := c.small(l)
	cfg.SnapshotBytes, cfg.KeepRows = 2000, 30
	r, err := replica.Open(t.Context(), cfg)
	require.NoError(t, err)
	self := commands.RegisterNode{Cluster: testCluster, Level: commands.Level}
	_, _ = rand.Read(self.Incarnation[:])
	_, _, err = r.Register(t.Context(), self)
	require.NoError(t, err)
	require.NoError(t, r.KeepMarks(t.Context()))
	return r
}
