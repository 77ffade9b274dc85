package upkeep_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
	"github.com/picomq/picomq/upkeep"
)

// kill makes segments with records of a stream each and deletes the streams.
func kill(t *testing.T, n *node, count int) (ids []blobwal.SegmentID) {
	t.Helper()
	for i := range count {
		id := n.create(t, fmt.Sprint("dead/", i), stream.Config{})
		_, segment := n.commit(t, commands.Append{ID: id, Records: 3, Bytes: 7})
		n.propose(t, &commands.Delete{ID: id})
		ids = append(ids, segment)
	}
	return ids
}

func TestDeadSegmentsGoAfterAGrace(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	dead := kill(t, n, 20)
	live := n.create(t, "live", stream.Config{})
	slot, kept := n.commit(t, commands.Append{ID: live, Records: 3, Bytes: 7})
	w.pass(t, n, 80*time.Second)
	counts := n.View().Counts()
	require.EqualValues(t, 20, counts.Doomed)
	for _, id := range dead {
		require.True(t, w.has(t, id), "a reader may be about to ask for it")
	}
	require.EqualValues(t, 20, n.status(t, "collect").Backlog)

	w.pass(t, n, 30*time.Second)
	for _, id := range dead {
		require.False(t, w.has(t, id))
	}
	require.True(t, w.has(t, kept))
	counts = n.View().Counts()
	require.EqualValues(t, 1, counts.Segments)
	require.Zero(t, counts.Dead)
	_, ok := n.View().Segment(slot)
	require.True(t, ok)
	reused, _ := n.commit(t, commands.Append{ID: live, Records: 3, Bytes: 7})
	require.Zero(t, reused, "slots are used again")

	last := n.Applied()
	w.pass(t, n, 5*time.Minute)
	require.Equal(t, last, n.Applied(), "then all is quiet")
}

// TestALogThatLostItsTailDeletesNothing: what it lost may have been the Doom.
func TestALogThatLostItsTailDeletesNothing(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	dead := kill(t, n, 5)
	before := n.Applied() - 1 // the last of the streams is there
	w.pass(t, n, 80*time.Second)
	require.EqualValues(t, 5, n.View().Counts().Doomed)
	w.clock.Add(time.Minute.Milliseconds())
	n.propose(t, &commands.Tick{})
	w.log.Rewind(before)
	require.Error(t, n.Step(t.Context(), w.now()))
	for _, id := range dead {
		require.True(t, w.has(t, id))
	}
}

// TestADatabaseBesideAnotherDeletesNothing: a node of the other one marked a row
// that this log does not have.
func TestADatabaseBesideAnotherDeletesNothing(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	dead := kill(t, n, 5)
	w.pass(t, n, 80*time.Second)
	mark := fmt.Sprintf("%s/0000/applied/%08x", cluster, 9)
	write := func(index commands.Index) {
		require.NoError(t, w.bucket.WriteAll(t.Context(), mark, fmt.Appendf(nil, "picomq applied 1 %d %016x\n", index, 7), nil))
	}
	n.propose(t, &commands.Tick{})
	for _, elsewhere := range []commands.Index{n.Applied() + 100, 3} {
		write(elsewhere)
		w.clock.Add(time.Minute.Milliseconds())
		require.ErrorContains(t, n.Step(t.Context(), w.now()), commands.ErrLostTail.Error())
		for _, id := range dead {
			require.True(t, w.has(t, id))
		}
	}
	require.NoError(t, w.bucket.Delete(t.Context(), mark))
	w.pass(t, n, 2*time.Minute)
	for _, id := range dead {
		require.False(t, w.has(t, id))
	}
}

func TestAPackedSegmentIsLeftToItsSwapForAWhile(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	now := n.View().LogTime()
	n.propose(t, &commands.Pack{Sequence: n.segments.Reserve(), Size: 7, Level: 1, Oldest: now, Newest: now})
	w.pass(t, n, 80*time.Second)
	require.Zero(t, n.View().Counts().Doomed, "its Swap may be on its way")
	w.pass(t, n, 30*time.Second)
	require.EqualValues(t, 1, n.View().Counts().Doomed)
	w.pass(t, n, 2*time.Minute)
	require.Zero(t, n.View().Counts().Segments, "that there never was an object does not matter")
}

func TestWhatCannotBeDeletedStaysAndTheRestGoes(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	dead := kill(t, n, 600) // several steps
	stuck := blobwal.Key(cluster, dead[17])
	w.faults.SetPlan(func(op faultbucket.Op) (d faultbucket.Decision) {
		if op.Kind == faultbucket.Delete && op.Key == stuck {
			d.Before = faultbucket.Fail(op)
		}
		return d
	})
	sawError := false
	for range 30 {
		w.clock.Add(upkeep.TickEvery.Milliseconds())
		if err := n.Step(t.Context(), w.now()); err != nil {
			require.ErrorContains(t, err, stuck)
			sawError = true
		}
	}
	require.True(t, sawError)
	require.EqualValues(t, 1, n.View().Counts().Segments)
	require.EqualValues(t, 1, n.View().Counts().Doomed)
	requireObjects(t, w, n, false)
	w.faults.SetPlan(nil)
	w.clock.Add(time.Minute.Milliseconds()) // the longest pause
	w.pass(t, n, 3*time.Minute)
	requireObjects(t, w, n, true)
	require.Zero(t, n.status(t, "collect").Backlog)
}

// TestDeletesThatFailNowAndThenOnlySlowCollectionDown: steps that get on do not
// pause longer and longer.
func TestDeletesThatFailNowAndThenOnlySlowCollectionDown(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	kill(t, n, 6000)
	var deletes atomic.Int64
	w.faults.SetPlan(func(op faultbucket.Op) (d faultbucket.Decision) {
		if op.Kind == faultbucket.Delete && deletes.Add(1)%50 == 0 {
			d.Before = faultbucket.Fail(op)
		}
		return d
	})
	w.clock.Add(2 * time.Minute.Milliseconds()) // for the grace
	for range 180 {
		w.clock.Add(time.Second.Milliseconds())
		_ = n.Step(t.Context(), w.now())
	}
	require.Less(t, n.View().Counts().Dead, uint64(600))
}

func TestABucketThatIsGoneForAnHour(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	kill(t, n, 30)
	w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
		return faultbucket.Decision{Before: faultbucket.Fail(op)}
	})
	for range 360 {
		w.clock.Add(upkeep.TickEvery.Milliseconds())
		_ = n.Step(t.Context(), w.now())
	}
	s := n.status(t, "collect")
	require.Contains(t, s.Error, "injected")
	require.EqualValues(t, 30, s.Backlog)
	require.Less(t, s.Failed, uint64(80), "with pauses")
	w.faults.SetPlan(nil)
	w.clock.Add(time.Minute.Milliseconds()) // the longest pause
	w.pass(t, n, 3*time.Minute)
	requireObjects(t, w, n, true)
}

func TestCollectionAfterACrashAnywhere(t *testing.T) {
	prepare := func(t *testing.T, w *world, n *node) {
		kill(t, n, 3)
		n.commit(t, commands.Append{ID: n.create(t, "live", stream.Config{}), Records: 3, Bytes: 7})
		now := n.View().LogTime()
		id := n.identity.Segment(n.segments.Reserve())
		require.NoError(t, n.segments.Store(t.Context(), id, []byte("packed")))
		n.propose(t, &commands.Pack{Sequence: id.Sequence, Size: 7, Level: 1, Oldest: now, Newest: now})
	}
	crashes{prepare: prepare, check: requireObjects}.run(t)
}

func TestTwoHoldersCollectAtOnce(t *testing.T) {
	w := newWorld(t)
	first, second := w.start(t, 0), w.start(t, 0)
	dead := kill(t, first, 40)
	live := first.create(t, "live", stream.Config{})
	first.commit(t, commands.Append{ID: live, Records: 3, Bytes: 7})
	for range 30 {
		w.clock.Add(upkeep.TickEvery.Milliseconds())
		for _, n := range []*node{first, second} { // each takes the lease for itself
			require.NoError(t, n.Sync(t.Context()))
			require.NoError(t, n.Step(t.Context(), w.now()))
			number, epoch := n.Node()
			require.NoError(t, n.log.ReleaseLease(t.Context(), "upkeep", commands.Holder{Node: number, Epoch: epoch}))
		}
		first.commit(t, commands.Append{ID: live, Records: 3, Bytes: 7}) // into slots that are free
	}
	require.NoError(t, first.Sync(t.Context()))
	require.NotEmpty(t, dead)
	requireObjects(t, w, first, true)
}
