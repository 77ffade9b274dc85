package replica

import (
	"context"
	"fmt"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica/archive"
)

// truncateRows is the most rows that one Truncate drops.
const truncateRows = 1000

// Archive writes the next archive object, of rows at or before the newest
// confirmed snapshot, and answers how many rows it holds: 0 when nothing is to
// be archived. Call it until then, after Register, from time to time, by one
// node; a second that does so too is harmless.
//
// It may end anywhere, and the next call, of any node, goes on: where an object
// ends is decided in the log before the object is written, so all write the
// same one, and it is recorded only after it was read back and holds the rows
// that the log has. An object of that name with another content is an error
// that stays until a person moves it away.
func (r *Replica) Archive(ctx context.Context) (rows int, err error) {
	a, err := r.archived(ctx, r.log.Archive)
	if err != nil {
		return 0, err
	}
	if a.Announced == 0 {
		upTo, err := r.newestConfirmed(ctx)
		if err != nil || upTo <= a.Head.Index {
			return 0, err
		}
		return r.archiveNew(ctx, a, upTo)
	}
	w, err := r.gather(ctx, a, a.Announced, func(*archive.Writer, commands.Row) bool { return true })
	if err != nil {
		return 0, err
	}
	return r.putArchive(ctx, w)
}

// newestConfirmed is the index of the newest confirmed snapshot, or 0.
func (r *Replica) newestConfirmed(ctx context.Context) (commands.Index, error) {
	snapshots, err := r.log.Snapshots(ctx)
	if err != nil {
		return 0, fmt.Errorf("list snapshots: %w", err)
	}
	for _, s := range snapshots {
		if s.Confirmed {
			return s.Index, nil
		}
	}
	return 0, nil
}

// archiveNew decides where the next object ends, and writes it unless another
// node decided otherwise meanwhile: the next call writes that.
func (r *Replica) archiveNew(ctx context.Context, a commands.Archive, upTo commands.Index) (rows int, err error) {
	w, err := r.gather(ctx, a, upTo, (*archive.Writer).Fits)
	if err != nil {
		return 0, err
	}
	last := w.Last().Index
	now, err := r.archived(ctx, func(ctx context.Context) (commands.Archive, error) {
		return r.log.AnnounceArchive(ctx, a.Head.Index, last)
	})
	if err != nil {
		return 0, err
	}
	if now.Head != a.Head || now.Announced != last {
		return 0, nil
	}
	return r.putArchive(ctx, w)
}

// gather collects the rows after what is archived, up to an index or the first
// that does not fit.
func (r *Replica) gather(ctx context.Context, a commands.Archive, upTo commands.Index, fits func(*archive.Writer, commands.Row) bool) (*archive.Writer, error) {
	w, err := archive.NewWriter(r.self.Cluster, archive.LinkAt(a))
	if err != nil {
		return nil, err
	}
	for w.Last().Index < upTo {
		rows, err := r.readRows(ctx, w.Last().Index)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			return nil, fmt.Errorf("archive rows up to %d: the log ends at row %d", upTo, w.Last().Index)
		}
		for _, row := range rows {
			if row.Index > upTo || !fits(w, row) {
				return w, nil
			}
			if err := w.Add(row); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

// putArchive writes the announced object and records it.
func (r *Replica) putArchive(ctx context.Context, w *archive.Writer) (rows int, err error) {
	object, err := w.Seal()
	if err != nil {
		return 0, err
	}
	key, digest := object.Key(), object.Digest()
	if err := r.checkAlone(ctx, object); err != nil {
		return 0, err
	}
	err = r.cfg.Bucket.WriteAll(ctx, key, object.Bytes, &blob.WriterOptions{ContentType: "application/octet-stream", IfNotExist: true})
	if err != nil && gcerrors.Code(err) != gcerrors.FailedPrecondition {
		return 0, fmt.Errorf("write %s: %w", key, err)
	}
	// Written now or before: only what can be read may stand for the rows.
	there, err := archive.Read(ctx, r.cfg.Bucket, key, nil)
	if err != nil {
		return 0, fmt.Errorf("read an archive object back: %w", err)
	}
	if there.Digest() != digest {
		return 0, fmt.Errorf("object %s is there and holds other rows than the log's %d to %d (digest %v, of the log's rows %v): "+
			"nothing more is archived or truncated until it is moved away; find out which history wrote it",
			key, object.First(), object.Last.Index, there.Digest(), digest)
	}
	now, err := r.archived(ctx, func(ctx context.Context) (commands.Archive, error) {
		return r.log.AdvanceArchive(ctx, object.Last, key, digest)
	})
	if err != nil {
		return 0, err
	}
	if now.Head.Index < object.Last.Index || (now.Head.Index == object.Last.Index && now.Digest != digest) {
		return 0, fmt.Errorf("object %s was not recorded: the log's archive ends at %v of object %v", key, now.Head, now.Digest)
	}
	r.cfg.Logger.Info("rows archived", "key", key, "rows", object.Rows(), "bytes", len(object.Bytes))
	return object.Rows(), nil
}

// checkAlone refuses to write an object beside one that begins with the same row
// and ends elsewhere: no writer of this log makes both, so the log was taken
// back and has grown again.
func (r *Replica) checkAlone(ctx context.Context, object archive.Object) error {
	prefix := fmt.Sprintf("%s%016x-", archive.Prefix(object.Cluster), uint64(object.First()))
	for span, err := range archive.List(ctx, r.cfg.Bucket, prefix) {
		if err != nil {
			return err
		}
		if span.Last != object.Last.Index {
			return fmt.Errorf("object %s is there, and the log announced one of rows %d to %d: it is of another history, as of a database "+
				"that was restored from an older copy; nothing more is archived or truncated until it is moved away", span.Key, object.First(), object.Last.Index)
		}
	}
	return nil
}

// Truncate drops the oldest rows from the log, at most [truncateRows], and
// answers how many left it: 0 when nothing more may. Call it until then, as
// Archive. It drops what is archived, but nothing after the oldest kept
// snapshot, so that every snapshot can be followed; nothing before there are
// [keepSnapshots] of them; nothing that this node did not apply; and not the
// last [Config.KeepRows] rows.
func (r *Replica) Truncate(ctx context.Context) (rows int, err error) {
	before, err := r.archived(ctx, r.log.Archive)
	if err != nil {
		return 0, err
	}
	upTo, err := r.truncatable(ctx, before)
	if err != nil || upTo == 0 {
		return 0, err
	}
	// Also when nothing is to be dropped: the log may give free space back.
	after, err := r.archived(ctx, func(ctx context.Context) (commands.Archive, error) {
		return r.log.Truncate(ctx, upTo, truncateRows)
	})
	if err != nil {
		return 0, err
	}
	return int(after.Truncated.Index - before.Truncated.Index), nil
}

// truncatable is the last row that may be dropped.
func (r *Replica) truncatable(ctx context.Context, a commands.Archive) (commands.Index, error) {
	snapshots, err := r.log.Snapshots(ctx)
	if err != nil {
		return 0, fmt.Errorf("list snapshots: %w", err)
	}
	head, err := r.readHead(ctx)
	if err != nil {
		return 0, err
	}
	keep := commands.Index(r.cfg.KeepRows)
	if head.Index <= keep {
		return 0, nil
	}
	return min(a.Head.Index, oldestKept(snapshots), head.Index-keep, r.Applied()), nil
}

// archived makes one call that answers what is archived, within its time, and
// notes the answer.
func (r *Replica) archived(ctx context.Context, ask func(context.Context) (commands.Archive, error)) (commands.Archive, error) {
	call, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	a, err := ask(call)
	if err != nil {
		return a, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Answers of calls at one time may come in any order.
	if a.Head.Index >= r.archive.Head.Index && a.Truncated.Index >= r.archive.Truncated.Index {
		r.archive = a
	}
	return a, nil
}
