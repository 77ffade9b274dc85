package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// digestLimit turns nodes that report no digest into an error, and reportsLimit has
// the next index tried.
const digestLimit, reportsLimit = 10 * time.Minute, time.Minute

// agree has every node report the digest of its state at one index, later than
// anything that was done to it, and compares them.
func (c *cluster) agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, digestLimit)
	defer cancel()
	log, err := sqllog.Open(ctx, c.database.URL, sqllog.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // nothing was written
	for {
		// Rows may be dropped before they are read here, by nodes in haste.
		err := c.agreeNext(ctx, log)
		again := errors.Is(err, commands.ErrTruncated) || errors.Is(err, context.DeadlineExceeded)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// agreeNext is agree for the next index at which nodes report.
func (c *cluster) agreeNext(ctx context.Context, log *sqllog.Log) error {
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	at := (head.Index/statemachine.CheckpointInterval + 1) * statemachine.CheckpointInterval
	if err := c.advance(ctx, log, at); err != nil {
		return err
	}
	reports, err := reportsOf(ctx, log, at)
	if err != nil {
		return err
	}
	for node, digest := range reports {
		if digest != reports[firstOf(reports)] {
			return fmt.Errorf("at row %d the digest of node %d is %016x, that of node %d %016x",
				at, node, uint64(digest), firstOf(reports), uint64(reports[firstOf(reports)]))
		}
	}
	return nil
}

func firstOf(reports map[commands.NodeID]commands.Digest) commands.NodeID {
	first := ^commands.NodeID(0)
	for node := range reports {
		first = min(first, node)
	}
	return first
}

// advance adds rows until the log is past an index: creates, which are rows of
// their own when they come one after the other. It stops soon after, before the
// rows in question are dropped.
func (c *cluster) advance(ctx context.Context, log *sqllog.Log, to commands.Index) error {
	for i, look := 0, 0; ; i++ {
		if i == look {
			head, err := log.Head(ctx)
			if err != nil || head.Index > to {
				return err
			}
			look += 1 + int(to-head.Index)/2
		}
		name := stream.Name(fmt.Sprintf("rows/%d-%d", to, i))
		_, err := c.seats[i%nodes].door.pico.Create(ctx, name, client.CreateRequest{Config: stream.Config{ContentType: contentType}})
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("the log does not come to row %d: %w", to, err)
		}
	}
}

// reportsOf waits for the reports of all nodes about one index.
func reportsOf(ctx context.Context, log *sqllog.Log, at commands.Index) (map[commands.NodeID]commands.Digest, error) {
	ctx, cancel := context.WithTimeout(ctx, reportsLimit)
	defer cancel()
	reports := map[commands.NodeID]commands.Digest{}
	last := at
	for {
		rows, err := log.Read(ctx, last, 1000, 8<<20)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			last = row.Index
			payload, err := commands.DecodePayload(row.Payload)
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", row.Index, err)
			}
			note(reports, &payload, at)
		}
		if len(reports) == nodes {
			return reports, nil
		}
		if len(rows) == 0 && !sleep(ctx, 20*time.Millisecond) {
			return nil, fmt.Errorf("%d of %d nodes reported their digest of row %d: %w", len(reports), nodes, at, context.Cause(ctx))
		}
	}
}

func note(reports map[commands.NodeID]commands.Digest, p *commands.Payload, at commands.Index) {
	for i := range p.Proposals {
		for _, c := range p.Proposals[i].Commands {
			if report, ok := c.(*commands.Checkpoint); ok && report.At == at {
				reports[p.Proposals[i].Origin.Node] = report.Digest
			}
		}
	}
}
