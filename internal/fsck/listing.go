package fsck

import (
	"context"
	"fmt"
	"strings"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
)

// keepSnapshots is how many confirmed snapshots a server keeps.
const keepSnapshots = 2

// listSnapshots looks for snapshot objects that the log does not name.
func (c *checker) listSnapshots(ctx context.Context) error {
	r := &repairs{checker: c}
	named, confirmed, oldest := map[string]bool{}, 0, commands.Index(0)
	for i := range c.snapshots {
		s := &c.snapshots[i]
		named[s.Key] = true
		if s.Confirmed && confirmed < keepSnapshots {
			confirmed, oldest = confirmed+1, s.Index
		}
	}
	for o, err := range list(ctx, c.Bucket, c.area(snapshotArea), "") {
		if err != nil {
			return err
		}
		if named[o.Key] {
			continue
		}
		at := snapshotPosition(&commands.Snapshot{Key: o.Key})
		switch {
		case o.Key != fmt.Sprintf("%s%016x-%016x", c.area(snapshotArea), uint64(at.Index), uint64(at.Row)):
			c.unknown(o.Key, "it is not named like a snapshot")
		case confirmed < keepSnapshots || at.Index >= oldest:
			c.noteOf(Unrecorded, o.Key, uint64(o.Size))
		default:
			if err := c.orphanSnapshot(ctx, r, o); err != nil {
				return err
			}
		}
	}
	return r.finish(ctx)
}

// orphanSnapshot is about a snapshot that the log does not name, and that a server
// may be about to delete: then it is gone by now.
func (c *checker) orphanSnapshot(ctx context.Context, r *repairs, o *blob.ListObject) error {
	there, err := retry(ctx, func() (bool, error) { return c.Bucket.Exists(ctx, o.Key) })
	if err != nil {
		return fmt.Errorf("ask for %s: %w", o.Key, err)
	}
	if !there {
		return nil
	}
	return r.orphan(ctx, Finding{Object: o.Key, What: fmt.Sprintf("the log does not name this snapshot (%d bytes), and keeps newer ones", o.Size)})
}

// listSegments compares the bucket's segments with the log's.
func (c *checker) listSegments(ctx context.Context) error {
	r := &repairs{checker: c}
	c.known = takeCatalogue(c.view)
	for o, err := range list(ctx, c.Bucket, c.area(segmentArea), "") {
		if err == nil {
			err = c.listed(ctx, r, o)
		}
		if err != nil {
			return err
		}
	}
	return r.finish(ctx)
}

// listed looks at one listed object among the segments.
func (c *checker) listed(ctx context.Context, r *repairs, o *blob.ListObject) error {
	_, id, err := blobwal.ParseKey(o.Key)
	if err != nil || !strings.HasPrefix(o.Key, blobwal.LogPrefix(c.cluster, 0)) {
		c.unknown(o.Key, "it is not named like a segment")
		return nil
	}
	if c.report.Objects++; c.report.Objects%slotsAtOnce == 0 {
		c.progress("bucket", c.report.Objects, uint64(len(c.known.known)))
	}
	if slot, ok := c.known.find(id); ok {
		c.known.listed[slot] = uint64(o.Size) + 1
		return nil
	}
	if why := c.orphan(id); why != "" {
		return r.orphan(ctx, Finding{Object: o.Key, What: fmt.Sprintf("nothing refers to its %d bytes, and nothing will: %s", o.Size, why)})
	}
	c.noteOf(Uncommitted, o.Key, uint64(o.Size))
	return nil
}
