package sqllog

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/picomq/picomq/commands"
)

type nodeRow struct {
	bun.BaseModel `bun:"table:nodes,alias:n"`

	Log         int    `bun:"log,pk"`
	Node        int64  `bun:"node,pk"`
	Epoch       int64  `bun:"epoch"`
	Incarnation []byte `bun:"incarnation"`
	Address     string `bun:"address"`
	Release     string `bun:"release"`
	Applied     int64  `bun:"applied"`
	AtMs        int64  `bun:"at_ms"`
}

// Beat records that a node lives, with the database's time; h.At is ignored. A
// beat of an epoch that a later one of the same node has overtaken changes
// nothing.
func (l *Log) Beat(ctx context.Context, h commands.Heartbeat) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	row := &nodeRow{
		Node: int64(h.Node), Epoch: int64(h.Epoch), Incarnation: h.Incarnation[:],
		Address: h.Address, Release: h.Release, Applied: int64(h.Applied),
	}
	_, err := l.writer.NewInsert().Model(row).
		Value("at_ms", "?", bun.Safe(l.dialect.now)).
		On("CONFLICT (log, node) DO UPDATE").
		Set("epoch = EXCLUDED.epoch, incarnation = EXCLUDED.incarnation, address = EXCLUDED.address").
		Set("release = EXCLUDED.release, applied = EXCLUDED.applied, at_ms = EXCLUDED.at_ms").
		Where("n.epoch <= EXCLUDED.epoch").
		Exec(ctx)
	if err != nil {
		return fmt.Errorf("record the heartbeat of node %d: %w", h.Node, err)
	}
	return nil
}

// Forget removes a node's beat, unless a later epoch of the node has beaten.
func (l *Log) Forget(ctx context.Context, node commands.NodeID, epoch commands.Epoch) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	_, err := l.writer.NewDelete().Model((*nodeRow)(nil)).
		Where("log = 0 AND node = ? AND epoch <= ?", int64(node), int64(epoch)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("forget the heartbeat of node %d: %w", node, err)
	}
	return nil
}

// Heartbeats lists the last beat of every node, by node. Ages are differences
// between their times, which are all the database's.
func (l *Log) Heartbeats(ctx context.Context) (list []commands.Heartbeat, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	rows, err := l.reader.NewSelect().Model((*nodeRow)(nil)).
		Column("node", "epoch", "incarnation", "address", "release", "applied", "at_ms").
		ColumnExpr("(?) - at_ms", bun.Safe(l.dialect.now)).
		Where("log = 0").Order("node").Rows(ctx)
	if err != nil {
		return nil, fmt.Errorf("list heartbeats: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var h commands.Heartbeat
		var incarnation []byte
		if err := rows.Scan(&h.Node, &h.Epoch, &incarnation, &h.Address, &h.Release, &h.Applied, &h.At, &h.AgeMs); err != nil {
			return nil, fmt.Errorf("list heartbeats: %w", err)
		}
		copy(h.Incarnation[:], incarnation)
		list = append(list, h)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list heartbeats: %w", err)
	}
	return list, nil
}
