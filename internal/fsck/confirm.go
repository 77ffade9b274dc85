package fsck

import (
	"context"
	"fmt"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
)

// maxPending bounds the objects that are looked up once more at the end.
const maxPending = 100_000

// pending is a finding that is true only if the log still has the segment.
type pending struct {
	finding Finding
	slot    uint32
	segment knownSegment
}

// postpone holds a finding back until the log was asked again.
func (c *checker) postpone(f Finding, s *statemachine.Slotted) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == maxPending {
		return fmt.Errorf("%w: more than %d objects are missing: is this the bucket of the cluster?", ErrIncomplete, maxPending)
	}
	c.pending = append(c.pending, pending{f, s.Slot, knownSegment{s.Epoch, s.Sequence, s.Node, s.Slot}})
	return nil
}

// confirm tells the findings that were held back and are true of the state as it
// is now: what was collected meanwhile is not missing.
func (c *checker) confirm(ctx context.Context) error {
	if len(c.pending) == 0 {
		return nil
	}
	index := c.report.Index
	c.view, c.known = statemachine.View{}, nil // make room for the state as it is now
	if err := c.rebuildNow(ctx); err != nil {
		return fmt.Errorf("look up %s that are missing: %w", count(uint64(len(c.pending)), "object"), err)
	}
	c.report.Index = index
	for _, p := range c.pending {
		s, ok := c.view.Segment(p.slot)
		same := ok && knownSegment{s.Epoch, s.Sequence, s.Node, p.slot} == p.segment
		if same && s.Doomed == 0 && !s.Dead() {
			c.tell(p.finding)
		} else {
			c.noteOf(Newer, p.finding.Object, 0)
		}
	}
	return nil
}

// rebuildNow builds the state as it is now, from the newest snapshot that can be
// used.
func (c *checker) rebuildNow(ctx context.Context) error {
	for try := 1; ; try++ {
		if err := c.refresh(ctx); err != nil {
			return err
		}
		var from *commands.Snapshot
		for i := range c.snapshots {
			if s := &c.snapshots[i]; s.Confirmed && s.Index >= c.archive.Truncated.Index && c.isGood(ctx, s) {
				from = s
				break
			}
		}
		err := c.rebuild(ctx, from, true)
		if !movedOn(err) || try == buildTries {
			return err
		}
	}
}

// isGood tells whether a snapshot can be used, reading it unless that is known.
func (c *checker) isGood(ctx context.Context, s *commands.Snapshot) bool {
	if _, known := c.verified[s.Key]; !known {
		_, err := c.load(ctx, s)
		c.verified[s.Key] = err == nil
	}
	return c.verified[s.Key]
}
