package replica_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// fill creates streams until a snapshot at or after the present index was
// confirmed.
func fill(t *testing.T, r *replica.Replica, prefix string) {
	t.Helper()
	begun := r.Applied()
	for i := 0; r.Stats().SnapshotIndex <= begun; i++ {
		propose(t, r, create(fmt.Sprintf("%s/%d", prefix, i)))
	}
}

func snapshots(t *testing.T, c *cluster) []commands.Snapshot {
	t.Helper()
	list, err := c.log.Snapshots(t.Context())
	require.NoError(t, err)
	return list
}

func TestANodeStartsFromASnapshotAndTheRowsAfterIt(t *testing.T) {
	c := newCluster(t)
	cfg := c.config(c.log.Peer())
	cfg.SnapshotBytes = 2000
	r := c.start(cfg, 0)
	fill(t, r, "first")
	propose(t, r, create("last"))
	r.Close()

	log := c.log.Peer()
	var from commands.Index
	log.Before = func(_ context.Context, call string) error { return nil }
	counting := &countingLog{Log: log, first: &from}
	again := c.start(c.config(counting), 0)
	_, ok := again.View().Lookup("last")
	require.True(t, ok)
	_, ok = again.View().Lookup("first/0")
	require.True(t, ok)
	require.Equal(t, confirmed(t, c)[0].Index, from, "rows below the snapshot were not read again")
}

// countingLog notes where the first read of many rows began.
type countingLog struct {
	replica.Log
	first *commands.Index
}

func (l *countingLog) Read(ctx context.Context, after commands.Index, maxRows, maxBytes int) ([]commands.Row, error) {
	if maxRows > 1 && *l.first == 0 {
		*l.first = after
	}
	return l.Log.Read(ctx, after, maxRows, maxBytes)
}

func TestASnapshotThatCannotBeReadIsPassedOver(t *testing.T) {
	c := newCluster(t)
	cfg := c.config(c.log.Peer())
	cfg.SnapshotBytes = 2000
	r := c.start(cfg, 0)
	fill(t, r, "a")
	fill(t, r, "b")
	require.Eventually(t, func() bool { return len(snapshots(t, c)) == 2 }, patience, time.Millisecond, "the newest two are kept")
	r.Close()
	list := snapshots(t, c)

	object, err := c.bucket.ReadAll(t.Context(), list[0].Key)
	require.NoError(t, err)
	object[len(object)/2] ^= 0x40
	require.NoError(t, c.bucket.WriteAll(t.Context(), list[0].Key, object, nil))
	again := c.start(c.config(c.log.Peer()), 0)
	_, ok := again.View().Lookup("b/0")
	require.True(t, ok)
	again.Close()

	for _, s := range list {
		require.NoError(t, c.bucket.Delete(t.Context(), s.Key))
	}
	third := c.start(c.config(c.log.Peer()), 0)
	_, ok = third.View().Lookup("a/0")
	require.True(t, ok, "without any snapshot the log is replayed from its first row")
}

func TestASnapshotBeyondTheLogMeansALostTail(t *testing.T) {
	c := newCluster(t)
	cfg := c.config(c.log.Peer())
	cfg.SnapshotBytes = 2000
	r := c.start(cfg, 0)
	fill(t, r, "a")
	r.Close()
	c.log.Rewind(2)
	_, err := replica.Open(t.Context(), c.config(c.log.Peer()))
	require.ErrorIs(t, err, commands.ErrLostTail)
}

func TestSnapshotsByAge(t *testing.T) {
	c := newCluster(t)
	cfg := c.config(c.log.Peer())
	cfg.SnapshotAge = time.Millisecond
	r := c.start(cfg, 0)
	propose(t, r, create("a"))
	require.Eventually(t, func() bool { return r.Stats().SnapshotIndex > 0 }, patience, time.Millisecond)
}

func TestRestoredStatesAgree(t *testing.T) {
	c := newCluster(t)
	cfg := c.config(c.log.Peer())
	cfg.SnapshotBytes = 500
	r := c.start(cfg, 0)
	for round := range 5 {
		fill(t, r, fmt.Sprint("round", round))
		propose(t, r, &commands.Delete{ID: stream.MakeID(0, uint64(round+1))})
	}
	want := r.View().Counts()
	r.Close()
	again, err := replica.Open(t.Context(), c.config(c.log.Peer()))
	require.NoError(t, err)
	require.Equal(t, want, again.View().Counts())
	require.NotZero(t, statemachine.CheckpointInterval)
}
