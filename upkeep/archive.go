package upkeep

import (
	"context"
	"sync/atomic"
	"time"
)

// archiveEvery is how often it is asked whether there is a new snapshot.
const archiveEvery = time.Minute

// archive moves what a snapshot made superfluous out of SQL: rows into archive
// objects, one a step; then what is archived out of the log, some rows a step;
// then snapshot objects that the log does not name. See
// [replica.Replica.Archive] for why each may end anywhere.
type archive struct {
	*Upkeep
	done atomic.Uint64 // the snapshot up to which all that was done
}

// backlog is the rows before the newest snapshot that are not in the archive, as
// far as this node knows, and at least 1 while something is left to be done.
func (j *archive) backlog() uint64 {
	s := j.cfg.Replica.Stats()
	if uint64(s.SnapshotIndex) <= j.done.Load() {
		return 0
	}
	return max(uint64(s.SnapshotIndex)-min(uint64(s.Archived), uint64(s.SnapshotIndex)), 1)
}

func (j *archive) step(ctx context.Context, _ time.Time) (more bool, err error) {
	newest := j.cfg.Replica.Stats().SnapshotIndex // before: a newer one is a pass of its own
	if rows, err := j.cfg.Replica.Archive(ctx); rows > 0 || err != nil {
		return err == nil, err
	}
	if rows, err := j.cfg.Replica.Truncate(ctx); rows > 0 || err != nil {
		return err == nil, err
	}
	if _, err := j.cfg.Replica.SweepSnapshots(ctx); err != nil {
		return false, err
	}
	j.done.Store(uint64(newest))
	return false, nil
}
