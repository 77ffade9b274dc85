package fsck_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/internal/fsck"
)

// besideACluster is a check while others may write to the log.
func (w *world) besideACluster(c *fsck.Config) { c.Log = w.log.Peer() }

// place puts an object under the key of a segment.
func (w *world) place(t *testing.T, node uint32, epoch, sequence uint64) (key string) {
	t.Helper()
	key = blobwal.Key(cluster, blobwal.SegmentID{Node: node, Epoch: epoch, Sequence: sequence})
	w.write(t, key, []byte("left behind"))
	return key
}

// orphaned is a world with every kind of object that nothing refers to.
func orphaned(t *testing.T) (w *world, orphans []string, uncommitted string) {
	t.Helper()
	w = populate(t)
	s := w.serve(t, 1)
	x := s.upload(w, &blobwal.Append{Stream: 1, Records: bodies([]string{"x"})})
	s.propose(commands.NewCommitSegment(free, x.Size, nil, []uint64{free + 1}))
	leaver := w.serve(t, 2)
	leaver.stop()
	s.propose(&commands.Depart{Node: 2, Epoch: commands.Epoch(leaver.identity.Epoch)})
	s.stop()
	epoch := s.identity.Epoch
	orphans = []string{
		w.place(t, 1, 1, free),                  // a fenced epoch
		w.place(t, 1, epoch, free+1),            // given up
		w.place(t, 7, 1, 1),                     // a node that never was
		w.place(t, 2, leaver.identity.Epoch, 1), // a node that is gone
		cluster.String() + "/0000/snapshots/0000000000000001-00000000000000ff",
	}
	w.write(t, orphans[4], []byte("a snapshot"))
	return w, orphans, w.place(t, 1, epoch, free+2)
}

// TestOrphans: what nothing refers to is told, by what is known of it.
func TestOrphans(t *testing.T) {
	w, orphans, _ := orphaned(t)
	later := w.place(t, 7, 1<<40, 1)
	fresh := cluster.String() + "/0000/snapshots/00000000ffffffff-00000000000000ff"
	w.write(t, fresh, nil)
	for _, beside := range []func(*fsck.Config){func(*fsck.Config) {}, w.besideACluster} {
		f := w.check(t, beside)
		f.requireOnly(t, "warning orphan "+orphans[0], "warning orphan "+orphans[1], "warning orphan "+orphans[2], "warning orphan "+orphans[3], "warning orphan "+orphans[4])
		require.Contains(t, f.info(fsck.Uncommitted), "2 objects (22 bytes)")
		require.Contains(t, f.info(fsck.Unrecorded), fresh)
		why := ""
		for _, x := range f.list {
			why += x.String() + "\n"
		}
		require.Contains(t, why, "its epoch is fenced")
		require.Contains(t, why, "its sequence was given up")
		require.Contains(t, why, "the log has no such start of a node")
		require.Contains(t, why, "its node is gone")
	}
	w.delete(t, later)
}

// TestRepair deletes orphans, and nothing else.
func TestRepair(t *testing.T) {
	for _, beside := range []bool{false, true} {
		w, orphans, uncommitted := orphaned(t)
		how := []func(*fsck.Config){repair}
		if beside {
			how = append(how, w.besideACluster)
		}
		w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
			if op.Kind == faultbucket.Delete {
				require.Contains(t, orphans, op.Key)
			}
			return faultbucket.Decision{}
		})
		f := w.check(t, how...)
		require.NoError(t, f.err)
		require.Equal(t, len(orphans), f.report.Repaired)
		require.True(t, f.report.Clean())
		for _, key := range orphans {
			exists, err := w.bucket.Exists(t.Context(), key)
			require.NoError(t, err)
			require.False(t, exists, key)
		}
		require.NotEmpty(t, w.read(t, uncommitted))
		again := w.check(t, how...)
		again.requireOnly(t)
		held, err := w.log.AcquireLease(t.Context(), "upkeep", commands.Holder{Node: 9, Epoch: 9}, time.Second)
		require.NoError(t, err)
		require.True(t, held, "the lease was given back")
	}
}

// TestRepairIsRefused: while another does maintenance, when the history is in
// doubt, and for what cannot be deleted.
func TestRepairIsRefused(t *testing.T) {
	w, orphans, _ := orphaned(t)
	mark := w.keys(t, "applied/")[0]
	good := w.read(t, mark)
	requireUntouched := func(f *found) {
		t.Helper()
		require.NoError(t, f.err)
		require.Zero(t, f.report.Repaired)
		for _, key := range orphans {
			require.Contains(t, f.faults(), "warning orphan "+key)
			require.NotEmpty(t, w.read(t, key))
		}
	}
	_, err := w.log.AcquireLease(t.Context(), "upkeep", commands.Holder{Node: 1, Epoch: 1}, time.Hour)
	require.NoError(t, err)
	f := w.check(t, repair, w.besideACluster)
	requireUntouched(f)
	require.Contains(t, f.info(fsck.Refused), "maintenance")

	w.write(t, mark, []byte("picomq applied 1 999999 00000000000000ff\n"))
	f = w.check(t, repair)
	requireUntouched(f)
	require.Contains(t, f.info(fsck.Refused), "in doubt")
	w.write(t, mark, good)

	w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
		if op.Kind == faultbucket.Delete {
			return faultbucket.Decision{Before: faultbucket.Fail(op)}
		}
		return faultbucket.Decision{}
	})
	f = w.check(t, repair)
	requireUntouched(f)
	require.Contains(t, f.list[0].What, "could not be deleted: ")
}

// TestNothingToRepair: then no lease is taken.
func TestNothingToRepair(t *testing.T) {
	w := populate(t)
	log := w.log.Peer()
	log.Before = func(_ context.Context, call string) error {
		require.NotContains(t, call, "lease")
		return nil
	}
	f := w.check(t, repair, func(c *fsck.Config) { c.Log = log })
	f.requireOnly(t)
	require.Empty(t, f.info(fsck.Refused))
}

// TestTheLeaseIsTheOneOfUpkeep: who repairs keeps upkeep from its work.
func TestTheLeaseIsTheOneOfUpkeep(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 0)
	s.create("a", "text/plain", "a")
	require.NoError(t, s.Delete(t.Context(), "a"))
	w.pass(t, s, 10*time.Second)
	require.True(t, s.upkeep.Leads(), "there was something to collect")
	orphan := w.place(t, 7, 1, 1)
	f := w.check(t, repair, w.besideACluster)
	f.requireOnly(t, "warning orphan "+orphan)
	require.NotEmpty(t, f.info(fsck.Refused))
}

// TestKeysThatAreNotOurs are told, at every level.
func TestKeysThatAreNotOurs(t *testing.T) {
	w := populate(t)
	root := cluster.String() + "/"
	var want []string
	for _, key := range []string{
		"README", "photos/", root + "0001/", root + "x", root + "0000/x", root + "0000/backup/",
		root + "0000/applied/x", root + "0000/marker/00000001/x", root + "0000/archive/x", root + "0000/snapshots/x",
		root + "0000/wal/x", root + "0000/wal/00000001/0000000000000001/0000000000000/0000000000000001.tmp",
	} {
		want = append(want, "warning unknown "+key)
		if key[len(key)-1] == '/' {
			key += "1"
		}
		w.write(t, key, []byte("x"))
	}
	w.check(t).requireOnly(t, want...)
	f := w.check(t, repair)
	require.Zero(t, f.report.Repaired)
}

// TestTheLogGoesOn: what is collected while the check runs is not missing.
func TestTheLogGoesOn(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 0)
	s.create("a", "text/plain")
	for range 40 {
		s.append("a", "record")
	}
	lost := w.segments(t, false)[39]
	w.delete(t, lost)
	moved := false
	f := w.check(t, w.besideACluster, func(c *fsck.Config) {
		c.Progress = func(p fsck.Progress) {
			if p.Stage == "streams" && !moved {
				moved = true
				require.NoError(t, s.Delete(t.Context(), "a"))
				w.pass(t, s, 5*time.Minute)
			}
		}
	})
	f.requireOnly(t)
	require.True(t, moved)
	require.NotEmpty(t, f.info(fsck.Newer))
	require.Empty(t, w.keys(t, "wal/"))
	w.check(t, w.besideACluster).requireOnly(t)

	s.create("b", "text/plain", "b")
	lost = w.segments(t, false)[0]
	w.delete(t, lost)
	w.check(t, w.besideACluster).requireOnly(t, "error missing "+lost)
}

// TestACheckEndsWhenToldTo.
func TestACheckEndsWhenToldTo(t *testing.T) {
	w := populate(t)
	for _, stage := range []string{"snapshots", "log", "archive", "streams", "segments"} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := fsck.Run(ctx, fsck.Config{Log: alone{w.log.Peer()}, Bucket: w.faulty, Found: func(f fsck.Finding) {
			require.Equal(t, fsck.Info, f.Severity, f)
		}, Progress: func(p fsck.Progress) {
			if p.Stage == stage {
				cancel()
			}
		}})
		require.ErrorIs(t, err, context.Canceled, stage)
		cancel()
	}
}

// TestASnapshotIsReplacedMeanwhile: the check begins again with the newer one.
func TestASnapshotIsReplacedMeanwhile(t *testing.T) {
	w := populate(t)
	s := w.serve(t, 1)
	oldest := w.snapshots(t)[1].Key
	reads := 0
	w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
		if op.Kind == faultbucket.Get && op.Key == oldest {
			if reads++; reads == 2 {
				for i := 0; w.snapshots(t)[1].Key <= oldest; i++ {
					require.Less(t, i, 10_000)
					s.append("plain", "another row")
				}
				w.settle(t, s)
			}
		}
		return faultbucket.Decision{}
	})
	w.check(t, w.besideACluster).requireOnly(t)
	require.Equal(t, 2, reads)
}
