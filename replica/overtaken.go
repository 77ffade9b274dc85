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
)

// archiveTimeout bounds the reading of one archive object, so that a bucket that
// never answers does not hold the loop for ever.
const archiveTimeout = time.Minute

// tailArchive applies the rows after the applied one that left the log, from the
// archive: nothing leaves the log that is not there. Faults of the connection are
// for the next round. An archive that lacks the rows, or contradicts itself, ends
// the replica: its next start takes a snapshot, which needs none of them.
func (r *Replica) tailArchive(ctx context.Context) error {
	a, err := r.archived(ctx, r.log.Archive)
	if err != nil {
		return fmt.Errorf("ask for what left the log: %w", err)
	}
	from, began := r.applied.Index, time.Now()
	r.cfg.Logger.Warn("this node is further behind than the log reaches back; it reads the archive", "after", from, "until", a.Truncated.Index)
	for r.applied.Index < a.Truncated.Index {
		err := r.applyArchived(ctx, path.Dir(a.Key)+"/")
		switch {
		case err == nil:
		case errors.Is(err, archive.ErrDamaged), errors.Is(err, archive.ErrVersion), errors.Is(err, errNotArchived), gcerrors.Code(err) == gcerrors.NotFound:
			return fatalf("this node was too far behind the log, and what left it cannot be read: %w; start it again, and it begins with a snapshot", err)
		default:
			return err
		}
		r.dropExpired()
	}
	r.cfg.Logger.Info("what left the log was read from the archive", "rows", r.applied.Index-from, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

var errNotArchived = errors.New("the archive does not have it")

// applyArchived applies what follows in the object that holds the next row. It
// reads the object to its end before, in at most [archive.MaxBytes]: only there it
// shows whether the object is what it claims.
func (r *Replica) applyArchived(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, archiveTimeout)
	defer cancel()
	next := r.applied.Index + 1
	span, ok, err := archive.Find(ctx, r.cfg.Bucket, prefix, next)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("row %d: %w", next, errNotArchived)
	}
	var rows []commands.Row
	_, err = archive.Read(ctx, r.cfg.Bucket, span.Key, func(row commands.Row) error {
		if row.Index >= next {
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := r.apply(row); err != nil {
			return fmt.Errorf("object %s: %w", span.Key, err)
		}
	}
	return nil
}
