package upkeep_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/stream"
)

// smallSnapshots lets a few rows make a snapshot, and the log keep few.
func smallSnapshots(c *replica.Config) { c.SnapshotBytes, c.KeepRows = 500, 3 }

// snapshotted makes rows until there are two more snapshots.
func snapshotted(t *testing.T, _ *world, n *node) {
	t.Helper()
	for range 2 {
		for before := n.Stats().SnapshotIndex; n.Stats().SnapshotIndex <= before; {
			n.create(t, fmt.Sprint("s/", n.Applied()), stream.Config{})
		}
	}
}

// archiveAll lets time go by until nothing is left to be archived. A replica makes
// snapshots in the background, so one of what snapshotted wrote may still be
// confirmed now, and is then work that a pass before it did not see.
func archiveAll(t *testing.T, w *world, n *node) {
	t.Helper()
	for w.pass(t, n, 2*time.Minute); n.status(t, "archive").Backlog > 0; {
		w.pass(t, n, 2*time.Minute)
	}
}

func TestRowsLeaveTheLogOnceTheyAreArchived(t *testing.T) {
	w := newWorld(t)
	w.small = smallSnapshots
	n := w.start(t, 0)
	snapshotted(t, w, n)
	orphan := cluster.String() + "/0000/snapshots/0000000000000001-0000000000000001"
	w.put(t, orphan)
	require.Positive(t, n.status(t, "archive").Backlog)
	archiveAll(t, w, n)
	stats := n.Stats()
	require.Greater(t, stats.FirstKept, commands.Index(5))
	require.Less(t, stats.LogRows, n.Applied()-4)
	ok, err := w.bucket.Exists(t.Context(), orphan)
	require.NoError(t, err)
	require.False(t, ok, "a snapshot that the log does not name")
	streams := n.View().Counts().Streams
	n.stop()
	again := w.start(t, n.number())
	require.Equal(t, streams, again.View().Counts().Streams)
}

func TestArchivingAfterACrashAnywhere(t *testing.T) {
	check := func(t *testing.T, w *world, n *node, done bool) {
		streams := n.View().Counts().Streams
		if !done {
			snapshotted(t, w, n) // so that there is work, whatever came of the first
			return
		}
		archiveAll(t, w, n)
		require.Greater(t, n.Stats().FirstKept, commands.Index(5))
		require.Equal(t, streams, w.start(t, 0).View().Counts().Streams, "what is left is enough to start from")
	}
	crashes{prepare: snapshotted, check: check, world: func(w *world) { w.small = smallSnapshots }}.run(t)
}
