package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/picomq/picomq/commands"
)

// Archive is what of the log is in the bucket, and what is only there.
func (l *Log) Archive(ctx context.Context) (commands.Archive, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return l.archive(ctx)
}

func (l *Log) archive(ctx context.Context) (a commands.Archive, err error) {
	const query = `SELECT idx, row_id, key, digest, announced_idx, truncated_idx, truncated_row_id FROM log_archive WHERE log = 0`
	var digest []byte
	err = l.writer.DB.QueryRowContext(ctx, query, l.args()...).
		Scan(&a.Head.Index, &a.Head.Row, &a.Key, &digest, &a.Announced, &a.Truncated.Index, &a.Truncated.Row)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = errNoHead
	case err == nil && len(digest) != len(a.Digest):
		err = fmt.Errorf("%w: the digest in log_archive has %d bytes", commands.ErrDamaged, len(digest))
	}
	if err != nil {
		return commands.Archive{}, fmt.Errorf("read where the archive ends: %w", err)
	}
	copy(a.Digest[:], digest)
	return a, nil
}

// AnnounceArchive decides that the object after the one that ends at after is
// to end at last, unless that was decided or written already: what is announced
// then stays, and is in the answer. So all who write that object write the same
// rows under the same key, whoever of them dies or wakes late.
func (l *Log) AnnounceArchive(ctx context.Context, after, last commands.Index) (commands.Archive, error) {
	const query = `UPDATE log_archive SET announced_idx = $1
WHERE log = 0 AND idx = $2 AND announced_idx = 0
    AND EXISTS (SELECT 1 FROM command_log AS c WHERE c.log = 0 AND c.idx = $1 AND c.idx > $2)`
	return l.changeArchive(ctx, "announce an archive object", query, int64(last), int64(after))
}

// AdvanceArchive records that the announced object, which ends at a position,
// is in the bucket under a key. Repeating it is harmless. When another object
// was recorded meanwhile, or none is announced there, nothing changes and the
// answer says what is.
func (l *Log) AdvanceArchive(ctx context.Context, to commands.Position, key string, digest commands.ArchiveDigest) (commands.Archive, error) {
	const query = `UPDATE log_archive SET idx = $1, row_id = $2, key = $3, digest = $4, announced_idx = 0
WHERE log = 0 AND announced_idx = $1
    AND EXISTS (SELECT 1 FROM command_log AS c WHERE c.log = 0 AND c.idx = $1 AND c.row_id = $2)`
	return l.changeArchive(ctx, "advance the archive", query, int64(to.Index), int64(to.Row), key, digest[:])
}

// changeArchive runs a conditional change of log_archive and reads what it is
// now.
func (l *Log) changeArchive(ctx context.Context, what, query string, args ...any) (commands.Archive, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	if _, err := l.writer.DB.ExecContext(ctx, query, l.args(args...)...); err != nil {
		return commands.Archive{}, fmt.Errorf("%s: %w", what, err)
	}
	return l.archive(ctx)
}
