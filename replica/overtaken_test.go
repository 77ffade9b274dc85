package replica_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/replica/archive"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/statemachine"
)

// truncatePast has a replica propose until rows up to an index left the log.
func truncatePast(t *testing.T, c *cluster, r *replica.Replica, index commands.Index) {
	t.Helper()
	for round := 0; archiveRecord(t, c.log).Truncated.Index < index; round++ {
		fill(t, r, fmt.Sprint("past ", index, "/", round))
		archiveAll(t, r)
		truncateAll(t, r)
	}
}

// deafLog is a log whose rows a node cannot read while it is deaf.
func deafLog(log *sqllogtest.Memory) *atomic.Bool {
	var deaf atomic.Bool
	log.Before = func(_ context.Context, call string) error {
		if call == "read" && deaf.Load() {
			return errors.New("too slow")
		}
		return nil
	}
	return &deaf
}

// unpolled is small of a node that reads the log only when it has to.
func (c *cluster) unpolled(log replica.Log) replica.Config {
	cfg := c.small(quietLog{log})
	cfg.Poll = 1 << 40
	return cfg
}

func TestANodeThatIsOvertakenReadsTheArchive(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	log := c.log.Peer()
	deaf := deafLog(log)
	slow := c.start(c.small(log), 0)
	deaf.Store(true)
	propose(t, r, create("meanwhile"))
	truncatePast(t, c, r, slow.Applied()+1)
	deaf.Store(false)
	require.NoError(t, slow.Sync(t.Context()))
	_, ok := slow.View().Lookup("meanwhile")
	require.True(t, ok)
	require.NoError(t, r.Sync(t.Context()))
	propose(t, slow, create("later"))
	require.NoError(t, r.Sync(t.Context()))
	require.NoError(t, slow.Sync(t.Context()))
	r.Close()
	slow.Close()
	require.Equal(t, r.StateDigest(), slow.StateDigest())
}

// The bucket fails while the archive is read: the next round goes on.
func TestANodeThatIsOvertakenWaitsForTheBucket(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	log := c.log.Peer()
	deaf := deafLog(log)
	cfg := c.small(log)
	var faults *faultbucket.Faults
	cfg.Bucket, faults = faultbucket.Wrap(c.bucket, nil)
	slow := c.start(cfg, 0)
	deaf.Store(true)
	propose(t, r, create("meanwhile"))
	truncatePast(t, c, r, slow.Applied()+1)
	var failed atomic.Int32
	faults.SetPlan(func(op faultbucket.Op) (d faultbucket.Decision) {
		if strings.HasPrefix(op.Key, archivePrefix) && failed.Add(1) <= 2 {
			d.Before = faultbucket.Fail(op)
		}
		return d
	})
	deaf.Store(false)
	require.NoError(t, slow.WaitApplied(t.Context(), r.Applied()))
	require.Greater(t, failed.Load(), int32(2))
}

// An archive that is damaged, or lacks an object, ends a node that needs it, and
// nothing of it is applied; the next start begins with a snapshot.
func TestANodeThatIsOvertakenDoesNotBelieveABadArchive(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, c *cluster, key string){
		"damaged": func(t *testing.T, c *cluster, key string) {
			object, err := c.bucket.ReadAll(t.Context(), key)
			require.NoError(t, err)
			object[len(object)-1] ^= 1
			require.NoError(t, c.bucket.WriteAll(t.Context(), key, object, nil))
		},
		"missing": func(t *testing.T, c *cluster, key string) {
			require.NoError(t, c.bucket.Delete(t.Context(), key))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			r := c.start(c.small(c.log.Peer()), 0)
			log := c.log.Peer()
			deaf := deafLog(log)
			slow := c.start(c.small(log), 0)
			deaf.Store(true)
			propose(t, r, create("meanwhile"))
			at := slow.Applied()
			truncatePast(t, c, r, at+1)
			span, ok, err := archive.Find(t.Context(), c.bucket, archivePrefix, at+1)
			require.NoError(t, err)
			require.True(t, ok)
			spoil(t, c, span.Key)
			deaf.Store(false)
			<-slow.Failed()
			require.ErrorContains(t, slow.Err(), "start it again")
			require.Equal(t, at, slow.Applied())
			slow.Close()

			again := c.start(c.small(c.log.Peer()), 0)
			_, ok = again.View().Lookup("meanwhile")
			require.True(t, ok)
		})
	}
}

// The row was written, its answer lost, and it left the log before it was looked
// for.
func TestADoubtThatWasTruncatedIsDecidedByTheArchive(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	log := c.log.Peer()
	var armed atomic.Bool
	log.Lost = func(_ commands.Insert, at commands.Inserted) error {
		if !armed.CompareAndSwap(true, false) {
			return nil
		}
		truncatePast(t, c, r, at.Index)
		return errors.New("the connection broke")
	}
	slow := c.start(c.unpolled(log), 0)
	armed.Store(true)
	made := propose(t, slow, create("doubtful"))
	require.Equal(t, statemachine.Accepted, made.Results[0].Verdict, "made once, by the first try")
	require.NoError(t, r.Sync(t.Context()))
	_, ok := r.View().Lookup("doubtful")
	require.True(t, ok)
}

// The insert was lost on its way, and what the log would say of it left the log.
func TestADoubtThatTheArchiveDoesNotHaveIsWrittenThen(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	log := c.log.Peer()
	var armed atomic.Bool
	slow := c.start(c.unpolled(log), 0)
	log.Before = func(_ context.Context, call string) error {
		if call == "append" && armed.CompareAndSwap(true, false) {
			truncatePast(t, c, r, r.Applied()+1)
			return commands.ErrUnknown
		}
		return nil
	}
	armed.Store(true)
	made := propose(t, slow, create("late"))
	require.Equal(t, statemachine.Accepted, made.Results[0].Verdict)
	require.NoError(t, r.Sync(t.Context()))
	_, ok := r.View().Lookup("late")
	require.True(t, ok)
}

// The answer came, and the row left the log before it was applied.
func TestAnAcknowledgedRowThatWasTruncatedIsReadFromTheArchive(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	log := c.log.Peer()
	var armed atomic.Bool
	log.Before = func(_ context.Context, call string) error {
		if call == "append" && armed.Load() { // so that the row is not the one after what it applied
			propose(t, r, &commands.Tick{})
		}
		return nil
	}
	log.Lost = func(_ commands.Insert, at commands.Inserted) error {
		if armed.CompareAndSwap(true, false) {
			truncatePast(t, c, r, at.Index)
		}
		return nil
	}
	slow := c.start(c.unpolled(log), 0)
	armed.Store(true)
	made := propose(t, slow, create("acknowledged"))
	require.Equal(t, statemachine.Accepted, made.Results[0].Verdict)
}

// A proposal that is refused because its node is too far behind is made again once
// it is not.
func TestAProposalOfAnOvertakenNodeWaitsForTheArchive(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	slow := c.start(c.unpolled(c.log.Peer()), 0)
	truncatePast(t, c, r, slow.Applied()+1)
	propose(t, slow, create("late"))
	require.NoError(t, r.Sync(t.Context()))
	_, ok := r.View().Lookup("late")
	require.True(t, ok)
}

// The rows after the snapshot that a start reads leave the log meanwhile.
func TestAStartThatIsOvertakenReadsTheArchive(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	twoSnapshots(t, r, "a")
	newest := confirmed(t, c)[0]
	log := c.log.Peer()
	var reads atomic.Int32
	log.Before = func(_ context.Context, call string) error {
		if call == "read" && reads.Add(1) == 2 { // the first checks that the snapshot is of this log
			truncatePast(t, c, r, newest.Index+1)
		}
		return nil
	}
	late := c.start(c.small(log), 0)
	require.NoError(t, late.Sync(t.Context()))
	require.GreaterOrEqual(t, late.Applied(), r.Applied())
}

func TestMarksOfRowsThatLeftTheLog(t *testing.T) {
	c := newCluster(t)
	old := c.start(c.small(c.log.Peer()), 9)
	old.Close() // its mark stays at its registration
	r := c.start(c.small(c.log.Peer()), 0)
	truncatePast(t, c, r, old.Applied()+10)
	require.NoError(t, c.register(t), "the archive has the row of the mark")

	key := testCluster.String() + "/0000/applied/00000009"
	mark, err := c.bucket.ReadAll(t.Context(), key)
	require.NoError(t, err)
	var index commands.Index
	var row uint64
	_, err = fmt.Sscanf(string(mark), "picomq applied 1 %d %x", &index, &row)
	require.NoError(t, err)
	forge := func(index commands.Index, row uint64) {
		text := fmt.Sprintf("picomq applied 1 %d %016x\n", index, row)
		require.NoError(t, c.bucket.WriteAll(t.Context(), key, []byte(text), nil))
	}
	forge(index, row+1)
	require.ErrorIs(t, c.register(t), commands.ErrLostTail)

	truncated := archiveRecord(t, c.log).Truncated
	forge(truncated.Index, uint64(truncated.Row))
	require.NoError(t, c.register(t), "the last truncated row is known by its id")
	forge(truncated.Index, uint64(truncated.Row)+1)
	require.ErrorIs(t, c.register(t), commands.ErrLostTail)

	forge(index, row+1)
	span, ok, err := archive.Find(t.Context(), c.bucket, archivePrefix, index)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, c.bucket.WriteAll(t.Context(), span.Key, []byte("spoiled"), nil))
	require.NoError(t, c.register(t), "an archive that cannot be read proves nothing")
	require.NoError(t, c.bucket.Delete(t.Context(), span.Key))
	require.NoError(t, c.register(t), "nor does one that is not there")
}

func TestWhatIsLeftToStartFrom(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	twoSnapshots(t, r, "a")
	archiveAll(t, r)
	require.Positive(t, truncateAll(t, r))
	r.Close()
	list := confirmed(t, c)
	start := func() commands.Index {
		again := c.start(c.config(c.log.Peer()), 0)
		defer again.Close()
		propose(t, again, create(fmt.Sprint("after ", again.Applied())))
		again.Close()
		digest, rows := replayed(t, c.bucket, c.log)
		require.Equal(t, rows, again.Applied())
		require.Equal(t, digest, again.StateDigest())
		return again.Stats().SnapshotIndex
	}
	require.Equal(t, list[0].Index, start())
	spoil := func(key string) {
		object, err := c.bucket.ReadAll(t.Context(), key)
		require.NoError(t, err)
		object[len(object)/2] ^= 0x40
		require.NoError(t, c.bucket.WriteAll(t.Context(), key, object, nil))
	}
	spoil(list[0].Key)
	require.Equal(t, list[1].Index, start(), "the rows after the older one are there")
	spoil(list[1].Key)
	require.Zero(t, start(), "history is replayed from the archive")

	span, _, err := archive.Find(t.Context(), c.bucket, archivePrefix, 1)
	require.NoError(t, err)
	require.NoError(t, c.bucket.Delete(t.Context(), span.Key))
	_, err = replica.Open(t.Context(), c.config(c.log.Peer()))
	require.ErrorContains(t, err, "the archive")
}

// A snapshot taken by a node whose fall-backs cannot be read is confirmed from
// the archive.
func TestASnapshotIsConfirmedFromTheArchive(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.small(c.log.Peer()), 0)
	twoSnapshots(t, r, "a")
	archiveAll(t, r)
	require.Positive(t, truncateAll(t, r))
	for _, s := range confirmed(t, c) {
		if err := c.bucket.Delete(t.Context(), s.Key); gcerrors.Code(err) != gcerrors.NotFound { // a younger one took its place
			require.NoError(t, err)
		}
	}
	fill(t, r, "b")
}

func TestOrphanedSnapshotsAreSwept(t *testing.T) {
	c := newCluster(t)
	cfg := c.kept(c.log.Peer())
	var faults *faultbucket.Faults
	cfg.Bucket, faults = faultbucket.Wrap(c.bucket, nil)
	r := c.start(cfg, 0)
	prefix := testCluster.String() + "/0000/snapshots/"
	orphan := func(index commands.Index) string {
		key := fmt.Sprintf("%s%016x-%016x", prefix, uint64(index), 7)
		require.NoError(t, c.bucket.WriteAll(t.Context(), key, []byte("left behind"), nil))
		return key
	}
	old := []string{orphan(1), orphan(2)}
	foreign := prefix + "readme"
	require.NoError(t, c.bucket.WriteAll(t.Context(), foreign, []byte("not ours"), nil))
	n, err := r.SweepSnapshots(t.Context())
	require.NoError(t, err)
	require.Zero(t, n, "while nothing is kept, nothing is older")
	other := c.start(c.small(c.log.Peer()), 0)
	twoSnapshots(t, other, "a")
	other.Close()
	young := orphan(confirmed(t, c)[0].Index + 1)

	faults.SetPlan(func(op faultbucket.Op) (d faultbucket.Decision) {
		if op.Kind == faultbucket.Delete && op.Key == old[1] && op.Nth == 0 {
			d.Before = faultbucket.Fail(op)
		}
		return d
	})
	n, err = r.SweepSnapshots(t.Context())
	require.ErrorContains(t, err, old[1])
	require.Equal(t, 1, n)
	n, err = r.SweepSnapshots(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n, "the next call goes on")
	for key, want := range map[string]bool{
		old[0]: false, old[1]: false, young: true, foreign: true, confirmed(t, c)[0].Key: true, confirmed(t, c)[1].Key: true,
	} {
		there, err := c.bucket.Exists(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, want, there, key)
	}
}
