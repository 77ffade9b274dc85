package upkeep_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
	"github.com/picomq/picomq/upkeep"
)

// soon sweeps at the first look.
func soon(c *upkeep.Config) { c.SweepAfter = time.Second }

func (w *world) put(t *testing.T, key string) {
	t.Helper()
	require.NoError(t, w.bucket.WriteAll(t.Context(), key, []byte("records"), &blob.WriterOptions{ContentType: "text/plain"}))
}

// leave puts a segment's object that no commit came for.
func (w *world) leave(t *testing.T, id blobwal.SegmentID) blobwal.SegmentID {
	t.Helper()
	w.put(t, blobwal.Key(cluster, id))
	return id
}

func TestOnlyWhatNobodyWillEverReferToIsAnOrphan(t *testing.T) {
	w := newWorld(t)
	old := w.start(t, 0)
	name := old.create(t, "a", stream.Config{})
	_, committed := old.commit(t, commands.Append{ID: name, Records: 1, Bytes: 7})
	fenced := w.leave(t, old.identity.Segment(50))
	dead := kill(t, old, 1)[0]
	old.stop()

	n := w.start(t, old.number(), soon)
	onItsWay := w.leave(t, n.identity.Segment(n.segments.Reserve()))
	givenUp := w.leave(t, n.identity.Segment(n.segments.Reserve()))
	commit := commands.NewCommitSegment(n.segments.Reserve(), 7, []commands.Append{{ID: name, Records: 1, Bytes: 7}}, []uint64{givenUp.Sequence})
	current := w.leave(t, n.identity.Segment(commit.Sequence))
	n.propose(t, commit)
	notYetKnown := w.leave(t, blobwal.SegmentID{Node: n.identity.Node, Epoch: n.identity.Epoch + 1000, Sequence: 1})
	neverWas := w.leave(t, blobwal.SegmentID{Node: 99, Epoch: 1, Sequence: 1})
	mayBe := w.leave(t, blobwal.SegmentID{Node: 99, Epoch: 1_000_000, Sequence: 1})
	strange := blobwal.LogPrefix(cluster, 0) + "readme"
	others := blobwal.Key([16]byte{9}, fenced)
	marker := blobwal.MarkerKey(cluster, 0, n.identity.Node, fenced.Epoch)
	for _, key := range []string{strange, others, marker} {
		w.put(t, key)
	}
	leaver := w.start(t, 0)
	departed := w.leave(t, leaver.identity.Segment(1))
	leaver.stop()
	n.propose(t, &commands.Depart{Node: leaver.number(), Epoch: commands.Epoch(leaver.identity.Epoch)})
	orphans := []blobwal.SegmentID{fenced, givenUp, neverWas, departed}

	w.clock.Add(time.Minute.Milliseconds())
	w.pass(t, n, 20*time.Second)
	require.False(t, n.Swept().Ended.IsZero())
	require.Zero(t, n.Swept().Orphans, "they are young")

	w.clock.Add(2 * time.Hour.Milliseconds())
	w.pass(t, n, 10*time.Second)
	swept := n.Swept()
	require.EqualValues(t, len(orphans), swept.Orphans)
	require.EqualValues(t, 1, swept.Foreign)
	require.Zero(t, swept.Missing+swept.Damaged)
	for _, id := range orphans {
		require.False(t, w.has(t, id), id)
	}
	for _, id := range []blobwal.SegmentID{committed, onItsWay, current, notYetKnown, mayBe} {
		require.True(t, w.has(t, id), id)
	}
	for _, key := range []string{strange, others, marker} {
		ok, err := w.bucket.Exists(t.Context(), key)
		require.NoError(t, err)
		require.True(t, ok, key)
	}
	w.pass(t, n, 3*time.Minute)
	require.False(t, w.has(t, dead), "that one is collected")
}

func TestASweepOfManyPages(t *testing.T) {
	w := newWorld(t)
	old := w.start(t, 0)
	stop := old.identity
	old.stop()
	n := w.start(t, old.number(), soon)
	for sequence := range uint64(2300) {
		w.leave(t, stop.Segment(sequence+1))
	}
	stuck := blobwal.Key(cluster, stop.Segment(3))
	w.faults.SetPlan(func(op faultbucket.Op) (d faultbucket.Decision) {
		if op.Kind == faultbucket.Delete && op.Key == stuck || op.Kind == faultbucket.List && op.Nth == 1 {
			d.Before = faultbucket.Fail(op)
		}
		return d
	})
	w.clock.Add(2 * time.Hour.Milliseconds())
	for range 30 {
		w.clock.Add(upkeep.TickEvery.Milliseconds())
		_ = n.Step(t.Context(), w.now())
	}
	require.EqualValues(t, 2299, n.Swept().Orphans, "what fails holds up nothing else")
	require.EqualValues(t, 1, n.status(t, "orphans").Backlog)
	w.faults.SetPlan(nil)
	w.clock.Add(2 * time.Hour.Milliseconds())
	w.pass(t, n, 10*time.Second)
	requireObjects(t, w, n, true)
	require.EqualValues(t, 1, n.Swept().Orphans)
	require.Zero(t, n.status(t, "orphans").Backlog)
}

func TestMissingAndDamagedObjectsAreNamed(t *testing.T) {
	w := newWorld(t)
	var out bytes.Buffer
	n := w.start(t, 0, soon, func(c *upkeep.Config) { c.Logger = slog.New(slog.NewTextHandler(&out, nil)) })
	id := n.create(t, "a", stream.Config{})
	var ids []blobwal.SegmentID
	for range 100 {
		_, segment := n.commit(t, commands.Append{ID: id, Records: 1, Bytes: 7})
		ids = append(ids, segment)
	}
	for _, i := range []int{5, 6, 7} {
		require.NoError(t, w.bucket.Delete(t.Context(), blobwal.Key(cluster, ids[i])))
	}
	require.NoError(t, w.bucket.WriteAll(t.Context(), blobwal.Key(cluster, ids[8]), []byte("x"), nil))
	// Not listed, but there when it is asked for; and trimmed away before that.
	hidden, trimmed := blobwal.Key(cluster, ids[50]), blobwal.Key(cluster, ids[0])
	for _, key := range []string{hidden, trimmed} {
		require.NoError(t, w.bucket.Delete(t.Context(), key))
	}
	w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
		switch {
		case op.Kind == faultbucket.Attributes && op.Key == hidden:
			w.put(t, hidden)
		case op.Kind == faultbucket.Attributes && op.Key == trimmed:
			n.propose(t, &commands.Doom{Slots: []uint32{0}})
		case op.Kind == faultbucket.List:
			n.propose(t, &commands.Trim{ID: id, To: 1})
		}
		return faultbucket.Decision{}
	})
	w.pass(t, n, 20*time.Second)
	require.EqualValues(t, 3, n.Swept().Missing)
	require.EqualValues(t, 1, n.Swept().Damaged)
	require.EqualValues(t, 95, n.Swept().Objects)
	for _, i := range []int{5, 6, 7, 8} {
		require.Contains(t, out.String(), blobwal.Key(cluster, ids[i]))
	}
	require.Equal(t, 4, strings.Count(out.String(), "level=ERROR"))
}

func TestASweepAfterACrashAnywhere(t *testing.T) {
	prepare := func(t *testing.T, w *world, n *node) {
		w.clock.Add(2 * time.Hour.Milliseconds())
		for sequence := range uint64(3) {
			w.leave(t, blobwal.SegmentID{Node: 88, Epoch: 1, Sequence: sequence + 1})
		}
		n.commit(t, commands.Append{ID: n.create(t, "live", stream.Config{}), Records: 3, Bytes: 7})
	}
	crashes{prepare: prepare, check: requireObjects, configure: []func(*upkeep.Config){soon}}.run(t)
}
