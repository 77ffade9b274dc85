package replica_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/replica/archive"
	"github.com/picomq/picomq/statemachine"
)

var archivePrefix = archive.Prefix(testCluster)

// small are settings under which little happens before a snapshot is due and
// rows may leave.
func (c *cluster) small(log replica.Log) replica.Config {
	cfg := c.config(log)
	cfg.SnapshotBytes, cfg.KeepRows = 500, 1
	return cfg
}

// kept is small without further snapshots.
func (c *cluster) kept(log replica.Log) replica.Config {
	cfg := c.config(log)
	cfg.KeepRows = 1
	return cfg
}

// twoSnapshots proposes until there are as many confirmed snapshots as are kept.
func twoSnapshots(t *testing.T, r *replica.Replica, prefix string) {
	t.Helper()
	fill(t, r, prefix+"/one")
	fill(t, r, prefix+"/two")
}

// archiveAll archives until nothing is left to be.
func archiveAll(t *testing.T, r *replica.Replica) (rows int) {
	t.Helper()
	for {
		n, err := r.Archive(t.Context())
		require.NoError(t, err)
		if n == 0 {
			return rows
		}
		rows += n
	}
}

func truncateAll(t *testing.T, r *replica.Replica) (rows int) {
	t.Helper()
	for {
		n, err := r.Truncate(t.Context())
		require.NoError(t, err)
		if n == 0 {
			return rows
		}
		rows += n
	}
}

// confirmed are the snapshots that may be installed, newest first.
func confirmed(t *testing.T, c *cluster) []commands.Snapshot {
	t.Helper()
	return slices.DeleteFunc(snapshots(t, c), func(s commands.Snapshot) bool { return !s.Confirmed })
}

// history is a log's rows since the first, as a test remembers them.
func history(t *testing.T, l replica.Log) (rows []commands.Row) {
	t.Helper()
	for {
		page, err := l.Read(t.Context(), commands.Index(len(rows)), 1000, 1<<20)
		require.NoError(t, err)
		if len(page) == 0 {
			return rows
		}
		rows = append(rows, page...)
	}
}

// replayed is the digest of the state that archive and log together give, and
// how many rows they hold. It fails if they are not one chain.
func replayed(t *testing.T, bucket *blob.Bucket, l replica.Log) (commands.Digest, commands.Index) {
	t.Helper()
	a, err := l.Archive(t.Context())
	require.NoError(t, err)
	state, at := statemachine.New(), commands.Position{}
	apply := func(row commands.Row) error {
		require.Equal(t, at, commands.Position{Index: row.Index - 1, Row: row.Previous})
		payload, err := commands.DecodePayload(row.Payload)
		require.NoError(t, err)
		state.Apply(&commands.Entry{Index: row.Index, DatabaseTime: row.DatabaseTime, Payload: payload})
		at = row.Position()
		return nil
	}
	end, err := archive.Walk(t.Context(), bucket, archivePrefix, archive.Link{}, a.Head.Index, apply)
	require.NoError(t, err)
	require.Equal(t, archive.LinkAt(a), end)
	for {
		rows, err := l.Read(t.Context(), at.Index, 1000, 1<<20)
		require.NoError(t, err)
		if len(rows) == 0 {
			return state.Digest(), at.Index
		}
		for _, row := range rows {
			require.NoError(t, apply(row))
		}
	}
}

func archiveRecord(t *testing.T, l replica.Log) commands.Archive {
	t.Helper()
	a, err := l.Archive(t.Context())
	require.NoError(t, err)
	return a
}

// requireArchive requires an archive whose objects follow each other from the first
// row to what the log records.
func (c *cluster) requireArchive(recorded commands.Archive) {
	c.t.Helper()
	end, err := archive.Walk(c.t.Context(), c.bucket, archivePrefix, archive.Link{}, recorded.Head.Index, nil)
	require.NoError(c.t, err)
	require.Equal(c.t, archive.LinkAt(recorded), end)
}

func TestRowsAreArchivedThenTruncated(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	require.Zero(t, archiveAll(t, r), "nothing is confirmed")
	require.Zero(t, truncateAll(t, r))
	twoSnapshots(t, r, "a")
	r.Close() // so that no further snapshot comes
	r = c.start(c.kept(c.log.Peer()), 0)
	require.Positive(t, archiveAll(t, r))
	require.Zero(t, archiveAll(t, r), "again")
	rows := history(t, c.log)
	list := confirmed(t, c)
	require.Equal(t, list[0].Index, archiveRecord(t, c.log).Head.Index, "everything up to the newest confirmed snapshot")

	require.EqualValues(t, list[1].Index, truncateAll(t, r), "up to the oldest kept one")
	require.Zero(t, truncateAll(t, r), "again")
	stats := r.Stats()
	head := r.Applied()
	assert.Equal(t, list[0].Index, stats.Archived)
	assert.Equal(t, head-list[0].Index, stats.ArchiveLag)
	assert.Equal(t, list[1].Index+1, stats.FirstKept)
	assert.Equal(t, head-list[1].Index, stats.LogRows)
	count, err := c.log.RowCount(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, stats.LogRows, count)

	c.requireArchive(archiveRecord(t, c.log))
	var archived []commands.Row
	_, err = archive.Walk(t.Context(), c.bucket, archivePrefix, archive.Link{}, stats.Archived, func(row commands.Row) error {
		archived = append(archived, row)
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, rows[:stats.Archived], archived, "every column of every row")

	r.Close()
	digest, _ := replayed(t, c.bucket, c.log)
	require.Equal(t, r.StateDigest(), digest)
	again := c.start(c.kept(c.log.Peer()), 0)
	again.Close()
	digest, _ = replayed(t, c.bucket, c.log)
	require.Equal(t, again.StateDigest(), digest, "snapshot and tail are what full history is")
}

func TestNothingIsTruncatedWithoutASnapshotToFallBackTo(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	twoSnapshots(t, r, "a")
	r.Close()
	r = c.start(c.kept(c.log.Peer()), 0)
	archiveAll(t, r)
	list := confirmed(t, c)
	for _, s := range list[1:] {
		require.NoError(t, c.log.DeleteSnapshot(t.Context(), s.Index))
	}
	require.Zero(t, truncateAll(t, r))
	unconfirmed := list[1]
	unconfirmed.Confirmed = false
	require.NoError(t, c.log.AddSnapshot(t.Context(), unconfirmed))
	require.Zero(t, truncateAll(t, r))
	require.NoError(t, c.log.ConfirmSnapshot(t.Context(), unconfirmed.Index))
	require.EqualValues(t, unconfirmed.Index, truncateAll(t, r))
}

func TestTheNewestRowsAreKept(t *testing.T) {
	c := newCluster(t)
	cfg := c.small(c.log.Peer())
	cfg.KeepRows = 12
	r := c.start(cfg, 0)
	for i := 0; r.Applied() < 100; i++ {
		propose(t, r, create(fmt.Sprint(i)))
	}
	twoSnapshots(t, r, "more")
	archiveAll(t, r)
	truncateAll(t, r)
	require.LessOrEqual(t, r.Stats().FirstKept, r.Applied()-11)
	require.Greater(t, r.Stats().FirstKept, commands.Index(50))
}

func TestATruncationIsDoneInSteps(t *testing.T) {
	c := newCluster(t)
	cfg := c.config(c.log.Peer())
	cfg.SnapshotBytes, cfg.KeepRows = 20_000, 1
	r := c.start(cfg, 0)
	for list := confirmed(t, c); len(list) < 2 || list[1].Index < replica.TruncateRows+5; list = confirmed(t, c) {
		propose(t, r, &commands.Tick{})
	}
	archiveAll(t, r)
	n, err := r.Truncate(t.Context())
	require.NoError(t, err)
	require.Equal(t, replica.TruncateRows, n)
	n, err = r.Truncate(t.Context())
	require.NoError(t, err)
	require.Positive(t, n)
}

// step is one call of a job that may fail, before it happens or after.
type step struct {
	call string // of the log, or the kind of the bucket's operation
	nth  int    // of that name, from 1
	done bool   // it happened and the answer was lost
}

// faulty makes one step fail.
type faulty struct {
	step
	mu     sync.Mutex
	armed  bool
	failed bool
}

func (f *faulty) arm(armed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = armed
}

func (f *faulty) call(name string, done bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed || f.failed || name != f.step.call || done != f.done {
		return nil
	}
	if f.nth--; f.nth > 0 {
		return nil
	}
	f.failed = true
	return fmt.Errorf("injected: %s (done: %v)", name, done)
}

// quietLog wakes nobody.
type quietLog struct{ replica.Log }

func (quietLog) Wakeups() <-chan struct{} { return nil }

// At every call of the log and the bucket, failed or done with its answer lost,
// the job dies; another node finishes it.
func TestEveryStepOfArchivingMayBeTheLast(t *testing.T) {
	for _, each := range []step{
		{call: "archive"},
		{call: "snapshots"},
		{call: "read"},
		{call: "announce archive"},
		{call: "put"},
		{call: "get"},
		{call: "advance archive"},
		{call: "head"},
		{call: "truncate"},
		{call: "list"},
		{call: "announce archive", done: true},
		{call: "put", done: true},
		{call: "advance archive", done: true},
		{call: "truncate", done: true},
	} {
		for each.nth = 1; dieAt(t, each); each.nth++ {
			require.Less(t, each.nth, 100)
		}
		require.Greater(t, each.nth, 1, "there is no call of %+v", each)
	}
}

// dieAt runs the jobs on a node that dies at a step, and then on another. It
// tells whether there was such a step.
func dieAt(t *testing.T, at step) bool {
	c := newCluster(t)
	first := c.start(c.small(c.log.Peer()), 0)
	twoSnapshots(t, first, "a")
	first.Close()
	rows := history(t, c.log)

	log, f := c.log.Peer(), &faulty{step: at}
	log.Before = func(_ context.Context, call string) error { return f.call(call, false) }
	log.After = func(call string) error { return f.call(call, true) }
	cfg := c.config(quietLog{log}) // no snapshot is due: only the jobs call
	cfg.KeepRows, cfg.Poll = 1, time.Hour
	cfg.Bucket, _ = faultbucket.Wrap(c.bucket, func(op faultbucket.Op) (d faultbucket.Decision) {
		switch {
		case strings.Contains(op.Key, "/applied/"): // a mark, on its own clock
		case f.call(op.Kind.String(), false) != nil:
			d.Before = faultbucket.Fail(op)
		case f.call(op.Kind.String(), true) != nil:
			d.After = faultbucket.Lose(op)
		}
		return d
	})
	r := c.start(cfg, 0)
	f.arm(true)
	err := runJobs(r)
	f.arm(false)
	require.Equal(t, f.failed, err != nil, "%+v: %v", at, err)

	other := c.start(c.small(c.log.Peer()), 0)
	archiveAll(t, other)
	truncateAll(t, other)
	checkHistory(t, c, rows)
	return f.failed
}

// runJobs runs all jobs until they are done or one fails.
func runJobs(r *replica.Replica) error {
	for _, job := range []func(context.Context) (int, error){r.Archive, r.Truncate, r.SweepSnapshots} {
		for {
			n, err := job(context.Background())
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

// checkHistory checks that archive and log are one chain that begins with rows.
func checkHistory(t *testing.T, c *cluster, rows []commands.Row) {
	t.Helper()
	a := archiveRecord(t, c.log)
	require.NotZero(t, a.Truncated.Index)
	c.requireArchive(a)
	_, err := archive.Walk(t.Context(), c.bucket, archivePrefix, archive.Link{}, min(a.Head.Index, commands.Index(len(rows))), func(row commands.Row) error {
		require.Equal(t, rows[row.Index-1], row)
		return nil
	})
	require.NoError(t, err)
	replayed(t, c.bucket, c.log)
	for span, err := range archive.List(t.Context(), c.bucket, archivePrefix) {
		require.NoError(t, err)
		require.LessOrEqual(t, span.Last, a.Head.Index, "nothing else is left behind")
	}
}

func TestAnObjectWithOtherRowsStopsTheArchive(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	twoSnapshots(t, r, "a")
	rows := history(t, c.log)
	last := confirmed(t, c)[0].Index
	_, err := c.log.AnnounceArchive(t.Context(), 0, last)
	require.NoError(t, err)
	object := func(change func(*commands.Row)) []byte {
		w, err := archive.NewWriter(testCluster, archive.Link{})
		require.NoError(t, err)
		for _, row := range rows[:last] {
			if row.Index == 2 {
				change(&row)
			}
			require.NoError(t, w.Add(row))
		}
		o, err := w.Seal()
		require.NoError(t, err)
		return o.Bytes
	}
	key := archive.Key(testCluster, 1, last)
	other := object(func(row *commands.Row) { row.Payload = []byte("another history") })
	require.NoError(t, c.bucket.WriteAll(t.Context(), key, other, nil))
	for range 2 {
		_, err = r.Archive(t.Context())
		require.ErrorContains(t, err, key)
		require.ErrorContains(t, err, "holds other rows")
	}
	require.NoError(t, c.bucket.WriteAll(t.Context(), key, other[:len(other)-1], nil))
	_, err = r.Archive(t.Context())
	require.ErrorIs(t, err, archive.ErrDamaged)
	require.ErrorContains(t, err, key)
	require.Zero(t, archiveRecord(t, c.log).Head.Index)
	require.Zero(t, truncateAll(t, r))

	require.NoError(t, c.bucket.WriteAll(t.Context(), key, object(func(*commands.Row) {}), nil))
	archiveAll(t, r)
	truncateAll(t, r)
	checkHistory(t, c, rows)
}

// A database that was taken back announces other objects than it did before.
func TestAnObjectOfAnotherHistoryStopsTheArchive(t *testing.T) {
	c := newCluster(t)
	first := c.start(c.small(c.log.Peer()), 0)
	twoSnapshots(t, first, "a")
	first.Close()
	r := c.start(c.kept(c.log.Peer()), 0)
	other := archive.Key(testCluster, 1, 3)
	require.NoError(t, c.bucket.WriteAll(t.Context(), other, []byte("whatever it holds"), nil))
	for range 2 {
		_, err := r.Archive(t.Context())
		require.ErrorContains(t, err, other)
		require.ErrorContains(t, err, "another history")
	}
	require.NoError(t, c.bucket.Delete(t.Context(), other))
	require.Positive(t, archiveAll(t, r))
}

// What cannot be read back stands for nothing, even if the put succeeded.
func TestAnObjectThatWasSpoiledIsNotRecorded(t *testing.T) {
	c := newCluster(t)
	cfg := c.small(c.log.Peer())
	var faults *faultbucket.Faults
	cfg.Bucket, faults = faultbucket.Wrap(c.bucket, nil)
	r := c.start(cfg, 0)
	twoSnapshots(t, r, "a")
	faults.SetPlan(func(op faultbucket.Op) (d faultbucket.Decision) {
		d.Flip = func(position int64, p []byte) {
			if at := archive.HeaderBytes + 30 - position; op.Kind == faultbucket.Get && at >= 0 && at < int64(len(p)) {
				p[at] ^= 1
			}
		}
		return d
	})
	_, err := r.Archive(t.Context())
	require.ErrorIs(t, err, archive.ErrDamaged)
	require.Zero(t, archiveRecord(t, c.log).Head.Index)
	faults.SetPlan(nil)
	require.Positive(t, archiveAll(t, r))
}

// Two nodes that both hold the lease, as one that was paused may, do the same.
func TestTwoHoldersDoTheSame(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(c.small(c.log.Peer()), 0), c.start(c.small(c.log.Peer()), 0)
	var holders sync.WaitGroup
	done := make(chan struct{})
	for _, r := range []*replica.Replica{a, b} {
		holders.Go(func() {
			for {
				if err := runJobs(r); err != nil && !errors.Is(err, commands.ErrTruncated) {
					assert.NoError(t, err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := 0; i < 300 || archiveRecord(t, c.log).Truncated.Index < 100; i++ {
		propose(t, a, create(fmt.Sprint(i)))
	}
	close(done)
	holders.Wait()
	a.Close()
	digest, rows := replayed(t, c.bucket, c.log)
	require.GreaterOrEqual(t, rows, commands.Index(302))
	if rows == a.Applied() {
		require.Equal(t, a.StateDigest(), digest)
	}
	c.requireArchive(archiveRecord(t, c.log))
}
