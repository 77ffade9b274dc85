package replica

import (
	"context"
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

// install sets the state from the newest confirmed snapshot that can be read
// and belongs to this log, or to the empty state.
func (r *Replica) install(ctx context.Context) error {
	r.snapshot.last = time.Now()
	snapshots, err := r.log.Snapshots(ctx)
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	for _, s := range snapshots {
		if !s.Confirmed {
			continue
		}
		state, at, err := r.load(ctx, s)
		if err != nil {
			r.cfg.Logger.Warn("a snapshot cannot be used; falling back to an older one", "key", s.Key, "error", err)
			continue
		}
		if err := r.checkPosition(ctx, at); err != nil {
			return err
		}
		r.state, r.applied = state, at
		r.appliedIndex.Store(uint64(at.Index))
		r.snapshot.taken.Store(uint64(at.Index))
		return nil
	}
	r.state = statemachine.New()
	return nil
}

// load reads a snapshot. Restore verifies the digest over what it read.
func (r *Replica) load(ctx context.Context, s commands.Snapshot) (*statemachine.State, commands.Position, error) {
	at, err := positionOf(s.Key)
	if err != nil {
		return nil, at, err
	}
	reader, err := r.cfg.Bucket.NewReader(ctx, s.Key, nil)
	if err != nil {
		return nil, at, err
	}
	defer func() { _ = reader.Close() }()
	state, err := statemachine.Restore(reader)
	if err != nil {
		return nil, at, err
	}
	if state.Index() != s.Index || at.Index != s.Index || state.Digest() != s.Digest {
		return nil, at, fmt.Errorf("it holds index %d with digest %016x, the log names index %d with digest %016x",
			state.Index(), uint64(state.Digest()), s.Index, uint64(s.Digest))
	}
	return state, at, nil
}

// checkPosition compares the position of a snapshot or a mark with the row that
// the log has there. A log that ends before it lost its tail.
func (r *Replica) checkPosition(ctx context.Context, at commands.Position) error {
	rows, err := r.log.Read(ctx, at.Index-1, 1, 1)
	if err != nil {
		return fmt.Errorf("read row %d: %w", at.Index, err)
	}
	if len(rows) > 0 && rows[0].Position() == at {
		return nil
	}
	head, err := r.readHead(ctx)
	if err != nil {
		return err
	}
	lost := lostTail(at, head)
	if len(rows) > 0 {
		lost.Found = rows[0].ID
	}
	return lost
}

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
	if err := r.log.ConfirmSnapshot(ctx, s.Index); err != nil {
		return fmt.Errorf("confirm snapshot %d: %w", s.Index, err)
	}
	return nil
}

// replay builds the state at a position from the last confirmed snapshot, or
// from the first row.
func (r *Replica) replay(ctx context.Context, to commands.Position) (*statemachine.State, error) {
	state, at := statemachine.New(), commands.Position{}
	snapshots, err := r.log.Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range snapshots {
		if !s.Confirmed || s.Index >= to.Index {
			continue
		}
		if loaded, from, err := r.load(ctx, s); err == nil {
			state, at = loaded, from
			break
		}
	}
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
	confirmed := 0
	for _, s := range snapshots {
		if s.Confirmed {
			confirmed++
		}
		if confirmed < keepSnapshots || (s.Confirmed && confirmed == keepSnapshots) {
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
