package replica

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// snapshotter decides when a snapshot is due and remembers the one being made.
type snapshotter struct {
	prefix string // of object keys; set once registered
	// Owned by the loop.
	bytes int64     // of rows applied since the last snapshot began
	last  time.Time // when it began
	busy  atomic.Bool
	work  sync.WaitGroup
	taken atomic.Uint64 // index of the last confirmed one
}

func (s *snapshotter) applied(bytes int) { s.bytes += int64(bytes) }

func (s *snapshotter) wait() { s.work.Wait() }

// snapshotKey names the object of a snapshot at a position. The key carries the
// row id, so that the chain of rows can be checked from the snapshot on.
func snapshotKey(prefix string, at commands.Position) string {
	return fmt.Sprintf("%s%016x-%016x", prefix, uint64(at.Index), uint64(at.Row))
}

// ClusterOf reads the cluster that a snapshot is of from its key.
func ClusterOf(key string) (cluster commands.ClusterID, err error) {
	digits, _, _ := strings.Cut(key, "/")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != len(cluster) {
		return cluster, fmt.Errorf("snapshot key %q does not begin with a cluster", key)
	}
	return commands.ClusterID(raw), nil
}

// positionOf reads the position back from a key.
func positionOf(key string) (commands.Position, error) {
	index, row, ok := strings.Cut(path.Base(key), "-")
	i, err1 := strconv.ParseUint(index, 16, 64)
	w, err2 := strconv.ParseUint(row, 16, 64)
	if !ok || err1 != nil || err2 != nil {
		return commands.Position{}, fmt.Errorf("snapshot key %q does not name a position", key)
	}
	return commands.Position{Index: commands.Index(i), Row: commands.RowID(w)}, nil
}

// snapshotTimeout bounds one snapshot, its confirmation included: a bucket that
// never answers must not be the end of all later ones.
const snapshotTimeout = 30 * time.Minute

// maybeSnapshot starts a snapshot when one is due and none is being made.
func (r *Replica) maybeSnapshot(ctx context.Context) {
	s := &r.snapshot
	due := s.bytes >= r.cfg.SnapshotBytes || (s.bytes > 0 && time.Since(s.last) >= r.cfg.SnapshotAge)
	if !due || !s.busy.CompareAndSwap(false, true) {
		return
	}
	s.bytes, s.last = 0, time.Now()
	frozen, at := r.state.BeginSnapshot(), r.applied
	s.work.Go(func() {
		defer s.busy.Store(false)
		if err := r.takeSnapshot(ctx, frozen, at); err != nil {
			var end *fatalError
			if errors.As(err, &end) {
				r.cfg.Logger.Error("the replica ends", "error", err)
				r.fail(err)
				return
			}
			r.cfg.Logger.Warn("a snapshot was not made; the next one is tried when it is due", "index", at.Index, "error", err)
		}
	})
}

// takeSnapshot writes the object, enters it in the log's table, confirms it by
// a replay, and drops those that are no longer needed.
func (r *Replica) takeSnapshot(ctx context.Context, frozen *statemachine.Snapshot, at commands.Position) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	begun := time.Now()
	key := snapshotKey(r.snapshot.prefix, at)
	size, err := r.upload(ctx, key, frozen)
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	entry := commands.Snapshot{Index: at.Index, Digest: frozen.Digest(), Key: key, Bytes: size, Taken: stream.Time(r.cfg.Now().UnixMilli())}
	if err := r.log.AddSnapshot(ctx, entry); err != nil {
		return fmt.Errorf("enter snapshot %d in the log: %w", at.Index, err)
	}
	if err := r.confirm(ctx, entry, at); err != nil {
		return err
	}
	r.snapshot.taken.Store(uint64(at.Index))
	r.cfg.Logger.Info("snapshot taken", "index", at.Index, "bytes", size, "took", time.Since(begun).Round(time.Millisecond))
	return r.dropOld(ctx)
}

// upload encodes the snapshot straight into its object. An object already there
// is a snapshot of the same position from before a crash: equal states encode
// alike, and the confirmation reads it.
func (r *Replica) upload(ctx context.Context, key string, frozen *statemachine.Snapshot) (int64, error) {
	pipe, encoded := io.Pipe()
	counted := &countingReader{r: pipe}
	go func() { _ = encoded.CloseWithError(frozen.Encode(encoded)) }()
	err := r.cfg.Bucket.Upload(ctx, key, counted, &blob.WriterOptions{ContentType: "application/octet-stream", IfNotExist: true})
	// An upload that ended early must not leave the encoder, or the pages it
	// holds, behind.
	_, _ = io.Copy(io.Discard, counted)
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		attrs, err := r.cfg.Bucket.Attributes(ctx, key)
		if err != nil {
			return 0, err
		}
		return attrs.Size, nil
	}
	return counted.n, err
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// confirm replays the rows since the last confirmed snapshot into a state of
// its own and compares digests. Then the object itself is read back.
func (r *Replica) confirm(ctx context.Context, s commands.Snapshot, at commands.Position) error {
	replayed, err := r.replay(ctx, at)
	if err != nil {
		return fmt.Errorf("replay up to row %d: %w", at.Index, err)
	}
	if digest := replayed.Digest(); digest != s.Digest {
		return fatalf("the state diverged: replaying the log up to row %d gives digest %016x, this node had %016x; "+
			"nothing is acknowledged from a state in doubt: restart to serve from the log, and keep snapshot %s for inspection",
			at.Index, uint64(digest), uint64(s.Digest), s.Key)
	}
	if _, _, err := r.load(ctx, s); err != nil {
		return fmt.Errorf("read snapshot %s back: %w", s.Key, err)
	}
	if r.comparison.doubtful.Load() { // a replay here repeats what a faulty binary does
		return fmt.Errorf("confirm snapshot %d: nodes report different digests; it stays unconfirmed", s.Index)
	}
	if err := r.log.ConfirmSnapshot(ctx, s.Index); err != nil {
		return fmt.Errorf("confirm snapshot %d: %w", s.Index, err)
	}
	return nil
}

// replay builds the state at a position from what is before it.
func (r *Replica) replay(ctx context.Context, to commands.Position) (*statemachine.State, error) {
	from, err := r.base(ctx, to.Index)
	if err != nil {
		return nil, err
	}
	state, at := from.state, from.at
	for at.Index < to.Index {
		rows, err := r.readRows(ctx, at.Index)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			return nil, fmt.Errorf("the log ends at row %d", at.Index)
		}
		for _, row := range rows {
			if row.Index > to.Index {
				break
			}
			entry, err := decode(row, at)
			if err != nil {
				return nil, err
			}
			state.Apply(&entry)
			at = row.Position()
		}
	}
	if at != to {
		return nil, &commands.LostTailError{Applied: to, Found: at.Row, Head: at}
	}
	return state, nil
}

// dropOld removes what is older than the newest confirmed snapshots: the
// table's row first, so that nobody finds a row without its object.
func (r *Replica) dropOld(ctx context.Context) error {
	snapshots, err := r.log.Snapshots(ctx)
	if err != nil {
		return err
	}
	oldest := oldestKept(snapshots)
	for _, s := range snapshots {
		if s.Index >= oldest {
			continue
		}
		if err := r.log.DeleteSnapshot(ctx, s.Index); err != nil {
			return fmt.Errorf("drop snapshot %d: %w", s.Index, err)
		}
		if err := r.cfg.Bucket.Delete(ctx, s.Key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return fmt.Errorf("delete %s: %w", s.Key, err)
		}
	}
	return nil
}

// SweepSnapshots removes snapshot objects that the log's table does not name
// and that are older than the oldest kept one: what a process left behind that
// died between the object and its row. It is given up, and told, at the first
// fault; the next call goes on. Call it after Register.
func (r *Replica) SweepSnapshots(ctx context.Context) (removed int, err error) {
	snapshots, err := r.log.Snapshots(ctx)
	if err != nil {
		return 0, fmt.Errorf("list snapshots: %w", err)
	}
	oldest := oldestKept(snapshots)
	named := make(map[string]bool, len(snapshots))
	for _, s := range snapshots {
		named[s.Key] = true
	}
	list := r.cfg.Bucket.List(&blob.ListOptions{Prefix: r.snapshot.prefix})
	for {
		object, err := list.Next(ctx)
		if err == io.EOF { //nolint:errorlint // the iterator's documented end
			return removed, nil
		}
		if err != nil {
			return removed, fmt.Errorf("list the snapshots in the bucket: %w", err)
		}
		at, err := positionOf(object.Key)
		if err != nil || at.Index >= oldest || named[object.Key] {
			continue // not a snapshot, perhaps just being entered, or known
		}
		if err := r.cfg.Bucket.Delete(ctx, object.Key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return removed, fmt.Errorf("delete %s: %w", object.Key, err)
		}
		removed++
	}
}

// oldestKept is the index of the oldest snapshot to fall back to, or 0 while
// there are fewer than are kept.
func oldestKept(newestFirst []commands.Snapshot) commands.Index {
	confirmed := 0
	for _, s := range newestFirst {
		if s.Confirmed {
			confirmed++
		}
		if confirmed == keepSnapshots {
			return s.Index
		}
	}
	return 0
}
