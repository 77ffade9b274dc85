package fsck

import (
	"context"
	"errors"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica/archive"
)

// restoreArchive is what to do about an archive that is not whole.
const restoreArchive = "restore the object from a copy; streams are served without it, but history is lost"

// chain is a walk along the archive.
type chain struct {
	*checker
	at      archive.Link
	certain bool                       // at is what the next object must name
	claims  map[commands.Index][]claim // on rows that left the log
}

// checkArchive reads the archive from its beginning and compares its end with the
// log.
func (c *checker) checkArchive(ctx context.Context) error {
	w := &chain{checker: c, certain: true, claims: map[commands.Index][]claim{}}
	for _, claim := range c.claims {
		if claim.at.Row != 0 && claim.at.Index < c.archive.Truncated.Index {
			w.claims[claim.at.Index] = append(w.claims[claim.at.Index], claim)
		}
	}
	if t := c.archive.Truncated; t.Index > 0 {
		w.claims[t.Index] = append(w.claims[t.Index], claim{theLog, t})
	}
	for o, err := range list(ctx, c.Bucket, c.area(archiveArea), "") {
		if err != nil {
			return err
		}
		if err := w.object(ctx, o); err != nil {
			return err
		}
	}
	return w.end(ctx)
}

// object looks at one listed object.
func (w *chain) object(ctx context.Context, o *blob.ListObject) error {
	span, err := archive.ParseKey(o.Key)
	if err != nil {
		w.unknown(o.Key, "it is not named like an archive object")
		return nil
	}
	if span.First > w.archive.Head.Index {
		w.beyond(span, o)
		return nil
	}
	w.progress("archive", uint64(span.First), uint64(w.archive.Head.Index))
	next := w.at.Last.Index + 1
	switch {
	case span.First > next:
		w.fail(Gap, o.Key, restoreArchive, "the archive lacks rows %d to %d before it", next, span.First-1)
		w.certain = false
	case span.First < next:
		w.fail(Overlap, o.Key, "find out which history wrote it", "it begins with row %d, and the object before it ends with row %d", span.First, w.at.Last.Index)
		return nil
	}
	w.report.Archives++
	header, err := w.read(ctx, span.Key)
	switch {
	case err == nil:
		w.follow(&header)
		return nil
	case isBroken(err):
		w.fail(Damaged, o.Key, restoreArchive, "%v", err)
		w.at, w.certain = archive.Link{Last: commands.Position{Index: span.Last}}, false
		return nil
	default:
		return err
	}
}

// isBroken tells an archive that is not as it was written from one that could not
// be read.
func isBroken(err error) bool {
	var chain *archive.ChainError
	return errors.Is(err, archive.ErrDamaged) || errors.Is(err, archive.ErrVersion) || errors.As(err, &chain) ||
		gcerrors.Code(err) == gcerrors.NotFound
}

// beyond is about an object of rows that the log does not say are archived.
func (w *chain) beyond(span archive.Span, o *blob.ListObject) {
	if w.shared || (span.First == w.archive.Head.Index+1 && span.Last == w.archive.Announced) {
		w.noteOf(Unrecorded, span.Key, uint64(o.Size))
		return
	}
	w.fail(Chain, span.Key, "find out which history wrote it",
		"it holds rows from %d on, and the log says that it is archived up to row %d", span.First, w.archive.Head.Index)
}

// read verifies an object, or if the check is quick its header.
func (w *chain) read(ctx context.Context, key string) (archive.Header, error) {
	return retry(ctx, func() (archive.Header, error) {
		if w.Quick {
			return archive.ReadHeader(ctx, w.Bucket, key)
		}
		return archive.Read(ctx, w.Bucket, key, w.row)
	})
}

// row compares a row with what else is known of it.
func (w *chain) row(row commands.Row) error {
	for _, c := range w.claims[row.Index] {
		w.checkClaim(c, row.Position())
	}
	delete(w.claims, row.Index) // the object may be read again
	return nil
}

// follow checks that an object follows the one before, and goes on from it.
func (w *chain) follow(h *archive.Header) {
	if w.certain && h.Before != w.at {
		w.fail(Chain, h.Key(), "find out which history wrote it", "it follows %v of object %v, and before it comes %v of object %v",
			h.Before.Last, h.Before.Digest, w.at.Last, w.at.Digest)
	}
	w.at, w.certain = h.Link(), true
}

// end checks that the archive ends where the log says, and meets the log's rows.
func (w *chain) end(ctx context.Context) error {
	head := archive.LinkAt(w.archive)
	switch {
	case w.at.Last.Index < head.Last.Index:
		w.fail(Gap, w.archive.Key, restoreArchive, "the archive lacks rows %d to %d at its end", w.at.Last.Index+1, head.Last.Index)
	case w.certain && w.at != head:
		w.fail(Chain, w.archive.Key, "find out which history wrote it", "it ends with %v of object %v, and the log says %v of object %v",
			w.at.Last, w.at.Digest, head.Last, head.Digest)
	}
	if head.Last.Index <= w.archive.Truncated.Index {
		return nil // no row is in both
	}
	rows, err := retry(ctx, func() ([]commands.Row, error) { return w.Log.Read(ctx, head.Last.Index-1, 1, 1) })
	switch {
	case errors.Is(err, commands.ErrTruncated): // meanwhile
		return nil
	case err != nil:
		return err
	case len(rows) == 0 || rows[0].Position() != head.Last:
		w.fail(Chain, w.archive.Key, "find out which history wrote it", "it ends with row %v, which the log does not have there", head.Last)
	}
	return nil
}
