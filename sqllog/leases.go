package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/picomq/picomq/commands"
)

type leaseRow struct {
	bun.BaseModel `bun:"table:leases,alias:held"`

	Log       int    `bun:"log,pk"`
	Name      string `bun:"name,pk"`
	Node      int64  `bun:"node"`
	Epoch     int64  `bun:"epoch"`
	ExpiresMs int64  `bun:"expires_ms"`
}

// AcquireLease takes or renews the right to do one kind of maintenance until
// ttl (at least a millisecond) from now, by the database's clock. It is given
// when nobody has it, it has run out, or the same node has it with this epoch
// or an earlier one, which is fenced anyway. A holder must stop by its own
// monotonic clock before ttl has passed since it called. Nothing may rest on
// two nodes never holding it at once.
func (l *Log) AcquireLease(ctx context.Context, name string, by commands.Holder, ttl time.Duration) (held bool, err error) {
	if ttl < time.Millisecond {
		return false, fmt.Errorf("acquire the lease %q: a duration of %v; it must be at least 1ms", name, ttl)
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	now := bun.Safe(l.dialect.now)
	result, err := l.writer.NewInsert().
		Model(&leaseRow{Name: name, Node: int64(by.Node), Epoch: int64(by.Epoch)}).
		Value("expires_ms", "? + ?", now, ttl.Milliseconds()).
		On("CONFLICT (log, name) DO UPDATE").
		Set("node = EXCLUDED.node, epoch = EXCLUDED.epoch, expires_ms = EXCLUDED.expires_ms").
		Where("held.expires_ms <= ? OR (held.node = EXCLUDED.node AND held.epoch <= EXCLUDED.epoch)", now).
		Exec(ctx)
	if err == nil {
		err = expectOne(result.RowsAffected())
	}
	if errors.Is(err, errNoRow) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("acquire the lease %q: %w", name, err)
	}
	return true, nil
}

// ReleaseLease gives a lease up before it runs out, if the holder still has it.
func (l *Log) ReleaseLease(ctx context.Context, name string, by commands.Holder) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	_, err := l.writer.NewDelete().Model((*leaseRow)(nil)).
		Where("log = 0 AND name = ? AND node = ? AND epoch = ?", name, int64(by.Node), int64(by.Epoch)).
		Exec(ctx)
	if err != nil {
		return fmt.Errorf("release the lease %q: %w", name, err)
	}
	return nil
}

// LeaseHolder is who has a lease that has not run out.
func (l *Log) LeaseHolder(ctx context.Context, name string) (by commands.Holder, held bool, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	query := "SELECT node, epoch FROM leases WHERE log = 0 AND name = $1 AND expires_ms > " + l.dialect.now
	err = l.reader.DB.QueryRowContext(ctx, query, l.args(name)...).Scan(&by.Node, &by.Epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return commands.Holder{}, false, nil
	}
	if err != nil {
		return commands.Holder{}, false, fmt.Errorf("ask who has the lease %q: %w", name, err)
	}
	return by, true, nil
}

// Leases lists who holds what, by name, also of leases that ran out.
func (l *Log) Leases(ctx context.Context) ([]commands.Lease, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	var rows []struct {
		Name   string
		Node   int64
		Epoch  int64
		LeftMs int64
	}
	err := l.reader.NewSelect().Model((*leaseRow)(nil)).
		Column("name", "node", "epoch").ColumnExpr("expires_ms - (?) AS left_ms", bun.Safe(l.dialect.now)).
		Where("log = 0").Order("name").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list the leases: %w", err)
	}
	held := make([]commands.Lease, len(rows))
	for i, r := range rows {
		holder := commands.Holder{Node: commands.NodeID(r.Node), Epoch: commands.Epoch(r.Epoch)}
		held[i] = commands.Lease{Name: r.Name, Holder: holder, LeftMs: r.LeftMs}
	}
	return held, nil
}
