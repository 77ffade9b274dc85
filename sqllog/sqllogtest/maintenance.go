package sqllogtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
)

func testSnapshots(t *testing.T, b Backend) {
	ctx := t.Context()
	list, err := b.Log.Snapshots(ctx)
	require.NoError(t, err)
	assert.Empty(t, list)

	first := commands.Snapshot{Index: 10, Digest: 1<<63 + 5, Key: "a/10.snap", Bytes: 1 << 40, Taken: 1_700_000_000_123}
	second := commands.Snapshot{Index: 20, Digest: 6, Key: "a/20.snap", Bytes: 7, Taken: 1_700_000_000_456, Confirmed: true}
	require.NoError(t, b.Log.AddSnapshot(ctx, first))
	require.NoError(t, b.Log.AddSnapshot(ctx, second))
	list, err = b.peer(t).Snapshots(ctx)
	require.NoError(t, err)
	assert.Equal(t, []commands.Snapshot{second, first}, list)

	require.NoError(t, b.Log.ConfirmSnapshot(ctx, 10))
	first.Confirmed = true
	require.Error(t, b.Log.ConfirmSnapshot(ctx, 11))

	again := first
	again.Confirmed, again.Bytes = false, 8
	require.NoError(t, b.Log.AddSnapshot(ctx, again), "by another node")
	first.Bytes = 8
	other := first
	other.Digest = 7
	require.ErrorContains(t, b.Log.AddSnapshot(ctx, other), "digest")
	list, err = b.Log.Snapshots(ctx)
	require.NoError(t, err)
	assert.Equal(t, []commands.Snapshot{second, first}, list)

	require.NoError(t, b.Log.DeleteSnapshot(ctx, 20))
	require.NoError(t, b.Log.DeleteSnapshot(ctx, 20), "it is gone already")
	list, err = b.Log.Snapshots(ctx)
	require.NoError(t, err)
	assert.Equal(t, []commands.Snapshot{first}, list)
}

func testLeases(t *testing.T, b Backend) {
	ctx, other := t.Context(), b.peer(t)
	one, two := commands.Holder{Node: 1, Epoch: 5}, commands.Holder{Node: 2, Epoch: 6}
	acquire := func(l Log, name string, by commands.Holder, want bool, why string) {
		t.Helper()
		held, err := l.AcquireLease(ctx, name, by, time.Hour)
		require.NoError(t, err)
		require.Equal(t, want, held, why)
	}
	holder := func(want commands.Holder) {
		t.Helper()
		by, held, err := other.LeaseHolder(ctx, "tick")
		require.NoError(t, err)
		require.Equal(t, want != commands.Holder{}, held)
		require.Equal(t, want, by)
	}
	holder(commands.Holder{})
	acquire(b.Log, "tick", one, true, "free")
	holder(one)
	acquire(other, "tick", two, false, "held by one")
	acquire(b.Log, "tick", one, true, "renewed")
	acquire(other, "sweep", two, true, "another lease")

	require.NoError(t, other.ReleaseLease(ctx, "tick", two), "not its own: nothing happens")
	acquire(other, "tick", two, false, "still held by one")
	require.NoError(t, b.Log.ReleaseLease(ctx, "tick", one))
	holder(commands.Holder{})
	acquire(other, "tick", two, true, "released")
	acquire(b.Log, "tick", one, false, "held by two")

	restarted := commands.Holder{Node: 2, Epoch: 9}
	acquire(b.Log, "tick", restarted, true, "a node takes over from its earlier start")
	acquire(b.Log, "tick", two, false, "which cannot take it back")

	held, err := other.Leases(ctx)
	require.NoError(t, err)
	require.Len(t, held, 2)
	require.Equal(t, "sweep", held[0].Name)
	require.Equal(t, commands.Lease{Name: "tick", Holder: restarted, LeftMs: held[1].LeftMs}, held[1])
	require.Positive(t, held[1].LeftMs)

	_, err = b.Log.AcquireLease(ctx, "tick", restarted, 0)
	require.Error(t, err)
}

func testLeaseExpiry(t *testing.T, b Backend) {
	one, two := commands.Holder{Node: 1, Epoch: 5}, commands.Holder{Node: 2, Epoch: 6}
	held, err := b.Log.AcquireLease(t.Context(), "tick", one, time.Millisecond)
	require.NoError(t, err)
	require.True(t, held)
	require.Eventually(t, func() bool {
		held, err := b.Log.AcquireLease(t.Context(), "tick", two, time.Hour)
		return err == nil && held
	}, patience, 2*time.Millisecond)
	held, err = b.Log.AcquireLease(t.Context(), "tick", one, time.Hour)
	require.NoError(t, err)
	assert.False(t, held)
}

func testHeartbeats(t *testing.T, b Backend) {
	ctx := t.Context()
	list, err := b.Log.Heartbeats(ctx)
	require.NoError(t, err)
	assert.Empty(t, list)

	two := commands.Heartbeat{Node: 2, Epoch: 4, Incarnation: commands.Incarnation{0, 1, 255}, Address: "[::1]:1", Release: "v1", Applied: 17}
	one := commands.Heartbeat{Node: 1, Epoch: 3, Address: "it's", Release: "v2", Applied: 18}
	require.NoError(t, b.Log.Beat(ctx, two))
	require.NoError(t, b.peer(t).Beat(ctx, one))
	list, err = b.Log.Heartbeats(ctx)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for _, h := range list {
		assert.Positive(t, int64(h.At))
		assert.GreaterOrEqual(t, h.AgeMs, int64(0))
	}
	assert.Equal(t, []commands.Heartbeat{one, two}, withoutTimes(list))

	restarted := two
	restarted.Epoch, restarted.Incarnation, restarted.Applied = 9, commands.Incarnation{7}, 3
	require.NoError(t, b.Log.Beat(ctx, restarted))
	require.NoError(t, b.Log.Beat(ctx, two), "a beat of the earlier start, late")
	list, err = b.Log.Heartbeats(ctx)
	require.NoError(t, err)
	assert.Equal(t, []commands.Heartbeat{one, restarted}, withoutTimes(list))

	require.NoError(t, b.Log.Forget(ctx, 2, two.Epoch), "the later start stays")
	require.NoError(t, b.peer(t).Forget(ctx, 1, one.Epoch))
	require.NoError(t, b.Log.Forget(ctx, 7, 1), "there is no such node")
	list, err = b.Log.Heartbeats(ctx)
	require.NoError(t, err)
	assert.Equal(t, []commands.Heartbeat{restarted}, withoutTimes(list))
}

func withoutTimes(list []commands.Heartbeat) []commands.Heartbeat {
	for i := range list {
		list[i].At, list[i].AgeMs = 0, 0
	}
	return list
}
