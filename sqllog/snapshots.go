package sqllog

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/picomq/picomq/commands"
)

type snapshotRow struct {
	bun.BaseModel `bun:"table:snapshots,alias:s"`

	Log       int    `bun:"log,pk"`
	Index     int64  `bun:"idx,pk"`
	Digest    int64  `bun:"digest"` // the unsigned digest's bits
	Key       string `bun:"key"`
	Bytes     int64  `bun:"bytes"`
	TakenMs   int64  `bun:"taken_ms"`
	Confirmed bool   `bun:"confirmed"`
}

// AddSnapshot records a snapshot object that is in the bucket. A snapshot that
// is recorded at the index already, perhaps by another node, is replaced and
// stays confirmed if the digests agree; otherwise the record stays and the
// error says so: one of the two states is wrong.
func (l *Log) AddSnapshot(ctx context.Context, s commands.Snapshot) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	row := &snapshotRow{
		Index: int64(s.Index), Digest: int64(s.Digest), Key: s.Key,
		Bytes: s.Bytes, TakenMs: int64(s.Taken), Confirmed: s.Confirmed,
	}
	result, err := l.writer.NewInsert().Model(row).
		On("CONFLICT (log, idx) DO UPDATE").
		Set("key = EXCLUDED.key, bytes = EXCLUDED.bytes, taken_ms = EXCLUDED.taken_ms, confirmed = s.confirmed OR EXCLUDED.confirmed").
		Where("s.digest = EXCLUDED.digest").
		Exec(ctx)
	if err == nil {
		err = expectOne(result.RowsAffected())
	}
	if errors.Is(err, errNoRow) {
		err = fmt.Errorf("another snapshot with a digest other than %016x is recorded there", uint64(s.Digest))
	}
	if err != nil {
		return fmt.Errorf("record the snapshot at %d: %w", s.Index, err)
	}
	return nil
}

// ConfirmSnapshot marks the snapshot at an index as confirmed. It is an error
// when there is none.
func (l *Log) ConfirmSnapshot(ctx context.Context, at commands.Index) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	result, err := l.writer.NewUpdate().Model((*snapshotRow)(nil)).
		Set("confirmed = TRUE").Where("log = 0 AND idx = ?", int64(at)).Exec(ctx)
	if err == nil {
		err = expectOne(result.RowsAffected())
	}
	if err != nil {
		return fmt.Errorf("confirm the snapshot at %d: %w", at, err)
	}
	return nil
}

// Snapshots lists the recorded snapshots, newest first.
func (l *Log) Snapshots(ctx context.Context) (list []commands.Snapshot, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	rows, err := l.reader.NewSelect().Model((*snapshotRow)(nil)).
		Column("idx", "digest", "key", "bytes", "taken_ms", "confirmed").
		Where("log = 0").Order("idx DESC").Rows(ctx)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s commands.Snapshot
		var digest int64
		if err := rows.Scan(&s.Index, &digest, &s.Key, &s.Bytes, &s.Taken, &s.Confirmed); err != nil {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		s.Digest = commands.Digest(digest)
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	return list, nil
}

// DeleteSnapshot forgets the snapshot at an index, if there is one. The object
// is the caller's to delete, after this.
func (l *Log) DeleteSnapshot(ctx context.Context, at commands.Index) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	_, err := l.writer.NewDelete().Model((*snapshotRow)(nil)).Where("log = 0 AND idx = ?", int64(at)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("forget the snapshot at %d: %w", at, err)
	}
	return nil
}

// errNoRow is a change that met no row.
var errNoRow = errors.New("there is no such row")

// expectOne turns "nothing changed" into errNoRow.
func expectOne(affected int64, err error) error {
	if err == nil && affected == 0 {
		return errNoRow
	}
	return err
}
