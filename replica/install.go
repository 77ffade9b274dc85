package replica

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica/archive"
	"github.com/picomq/picomq/statemachine"
)

// base is a state from which the log can be followed.
type base struct {
	state    *statemachine.State
	at       commands.Position
	snapshot bool // it is a confirmed snapshot
}

// install sets the state from what can be read of the past.
func (r *Replica) install(ctx context.Context) error {
	r.snapshot.last = time.Now()
	from, err := r.base(ctx, ^commands.Index(0))
	if err != nil {
		return err
	}
	if from.at.Index > 0 {
		if err := r.checkPosition(ctx, from.at); err != nil {
			return err
		}
	}
	if view := from.state.View(); view.Level() > commands.Level {
		return levelError(view)
	}
	r.state, r.applied = from.state, from.at
	r.appliedIndex.Store(uint64(from.at.Index))
	if from.snapshot {
		r.snapshot.taken.Store(uint64(from.at.Index))
	}
	return nil
}

// base is the newest confirmed snapshot below an index that can be read and
// whose next row the log still has. Without one, history is replayed from its
// first row: from the archive as far as the log was truncated. But not when there
// are confirmed ones above the index: then nobody needs the state below it.
func (r *Replica) base(ctx context.Context, below commands.Index) (base, error) {
	snapshots, err := r.log.Snapshots(ctx)
	if err != nil {
		return base{}, fmt.Errorf("list snapshots: %w", err)
	}
	archived, err := r.archived(ctx, r.log.Archive)
	if err != nil {
		return base{}, err
	}
	var later commands.Index
	for _, s := range snapshots {
		if s.Confirmed && s.Index > below {
			later = max(later, s.Index)
		}
		if !s.Confirmed || s.Index >= below || s.Index < archived.Truncated.Index {
			continue
		}
		state, at, err := r.load(ctx, s)
		if err != nil {
			r.cfg.Logger.Warn("a snapshot cannot be used; falling back to an older one", "key", s.Key, "error", err)
			continue
		}
		return base{state: state, at: at, snapshot: true}, nil
	}
	if archived.Truncated.Index == 0 {
		return base{state: statemachine.New()}, nil
	}
	if archived.Truncated.Index >= below {
		return base{}, &commands.TruncatedError{After: below - 1, First: archived.Truncated.Index + 1}
	}
	if later > 0 { // history is long, and what it would tell is of no use
		return base{}, fmt.Errorf("row %d: a later one, of row %d, was confirmed, and what lies before was truncated", below, later)
	}
	r.cfg.Logger.Warn("no snapshot can be used; replaying the archive from the first row", "until", archived.Truncated.Index)
	state, err := r.replayArchive(ctx, archived)
	return base{state: state, at: archived.Truncated}, err
}

// replayArchive builds the state at the last truncated row from the archive.
func (r *Replica) replayArchive(ctx context.Context, a commands.Archive) (*statemachine.State, error) {
	state, at := statemachine.New(), commands.Position{}
	_, err := archive.Walk(ctx, r.cfg.Bucket, path.Dir(a.Key)+"/", archive.Link{}, a.Truncated.Index, func(row commands.Row) error {
		entry, err := decode(row, at)
		if err != nil {
			return err
		}
		state.Apply(&entry)
		at = row.Position()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("replay the archive: %w", err)
	}
	if at != a.Truncated {
		return nil, fmt.Errorf("replay the archive: it has %v where the log was truncated after %v: they are not of one history", at, a.Truncated)
	}
	return state, nil
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
	if errors.Is(err, commands.ErrTruncated) {
		return r.checkTruncated(ctx, at)
	}
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

// checkTruncated is checkPosition for a row that left the log. The last one is
// known by its id, those before it are in the archive. An archive that lacks
// the row or cannot be believed proves nothing: then it is not refused.
func (r *Replica) checkTruncated(ctx context.Context, at commands.Position) error {
	a, err := r.archived(ctx, r.log.Archive)
	if err != nil {
		return err
	}
	found := a.Truncated
	if at.Index < a.Truncated.Index {
		if found, err = r.findArchived(ctx, path.Dir(a.Key)+"/", at.Index); err != nil {
			return err
		}
	}
	if found == at || found == (commands.Position{}) {
		return nil
	}
	head, err := r.readHead(ctx)
	if err != nil {
		return err
	}
	return &commands.LostTailError{Applied: at, Found: found.Row, Head: head}
}

// findArchived looks up the row at an index in the archive, or answers the zero
// Position when it cannot be learned.
func (r *Replica) findArchived(ctx context.Context, prefix string, index commands.Index) (found commands.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, archiveTimeout)
	defer cancel()
	span, ok, err := archive.Find(ctx, r.cfg.Bucket, prefix, index)
	if err != nil {
		return found, err
	}
	if ok {
		_, err = archive.Read(ctx, r.cfg.Bucket, span.Key, func(row commands.Row) error {
			if row.Index == index {
				found = row.Position()
			}
			return nil
		})
	}
	switch {
	case errors.Is(err, archive.ErrDamaged), gcerrors.Code(err) == gcerrors.NotFound:
		found = commands.Position{}
	case err != nil:
		return found, err
	}
	if found.Index == 0 {
		r.cfg.Logger.Warn("the archive cannot tell which row a node had applied", "index", index, "object", span.Key, "error", err)
	}
	return found, nil
}
