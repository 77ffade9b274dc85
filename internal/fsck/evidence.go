package fsck

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
)

// claim is an object's word that the log has a row.
type claim struct {
	object string
	at     commands.Position
}

// The areas of a cluster's part of the bucket.
const (
	markArea     = "applied/"
	archiveArea  = "archive/"
	keptArea     = "diverged/" // states that nodes ended with
	markerArea   = "marker/"
	snapshotArea = "snapshots/"
	segmentArea  = "wal/"
)

// area is what the keys of an area begin with.
func (c *checker) area(name string) string { return fmt.Sprintf("%s/0000/%s", c.cluster, name) }

// identity checks that the bucket is the cluster's.
func (c *checker) identity(ctx context.Context) error {
	want := [16]byte(c.cluster)
	_, err := retry(ctx, func() ([16]byte, error) { return blobwal.EnsureIdentity(ctx, c.Bucket, &want) })
	var wrong *blobwal.IdentityError
	var object *blobwal.ObjectError
	switch {
	case errors.As(err, &wrong) && !wrong.Missing:
		return err
	case errors.As(err, &wrong):
		c.fail(Missing, blobwal.IdentityKey, fmt.Sprintf("if it is the right bucket, put the line %q there", "picomq cluster 1 "+c.cluster.String()),
			"the bucket does not name the cluster it belongs to")
	case errors.As(err, &object):
		c.fail(Format, blobwal.IdentityKey, fmt.Sprintf("put the line %q there", "picomq cluster 1 "+c.cluster.String()), "%s", object.Detail)
	case err != nil:
		return err
	}
	return nil
}

// layout looks for keys beside those of the areas.
func (c *checker) layout(ctx context.Context) error {
	root := c.cluster.String() + "/"
	expected := map[string]bool{blobwal.IdentityKey: true, root: true, root + "0000/": true}
	for _, area := range []string{markArea, archiveArea, keptArea, markerArea, snapshotArea, segmentArea} {
		expected[c.area(area)] = true
	}
	for _, folder := range []string{"", root, root + "0000/"} {
		for o, err := range list(ctx, c.Bucket, folder, "/") {
			if err != nil {
				return err
			}
			if expected[o.Key] {
				continue
			}
			if o.IsDir {
				c.unknown(o.Key, "PicoMQ keeps nothing under such keys")
			} else {
				c.unknown(o.Key, "PicoMQ has no such key")
			}
		}
	}
	return c.keptStates(ctx)
}

// keptStates names the states that nodes ended with because others had another.
func (c *checker) keptStates(ctx context.Context) error {
	for o, err := range list(ctx, c.Bucket, c.area(keptArea), "") {
		if err != nil {
			return err
		}
		c.warn(Diverged, o.Key, "delete it once it was looked into", "a node ended because its state was not that of the others, and kept it here")
	}
	return nil
}

func (c *checker) unknown(key, what string) {
	c.warn(Unknown, key, "find out whose it is; a bucket is better not shared", "%s", what)
}

// maxSmall bounds what is read of an object that holds a line.
const maxSmall = 4 << 10

// small reads an object that holds a line, unless it is gone since it was listed.
func (c *checker) small(ctx context.Context, key string) (text string, there bool, err error) {
	line, err := retry(ctx, func() ([]byte, error) { return readAtMost(ctx, c.Bucket, key, maxSmall) })
	return string(line), line != nil, err
}

// marks reads how far the nodes had applied the log.
func (c *checker) marks(ctx context.Context) error {
	for o, err := range list(ctx, c.Bucket, c.area(markArea), "") {
		if err != nil {
			return err
		}
		text, there, err := c.small(ctx, o.Key)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		var node commands.NodeID
		var at commands.Position
		var row uint64
		_, named := fmt.Sscanf(strings.TrimPrefix(o.Key, c.area(markArea)), "%08x", &node)
		_, written := fmt.Sscanf(text, "picomq applied 1 %d %016x\n", &at.Index, &row)
		at.Row = commands.RowID(row)
		switch {
		case named != nil || o.Key != fmt.Sprintf("%s%08x", c.area(markArea), node):
			c.unknown(o.Key, "it is not named like a node's mark")
		case written != nil || at.Index == 0:
			c.fail(Format, o.Key, "servers refuse to start beside it: delete it, after making sure that the log is complete",
				"it does not hold a mark of applied rows")
		default:
			c.claims = append(c.claims, claim{o.Key, at})
		}
	}
	return nil
}

// markers reads which incarnation each start of a node was.
func (c *checker) markers(ctx context.Context) error {
	c.starts = map[start]commands.Incarnation{}
	for o, err := range list(ctx, c.Bucket, c.area(markerArea), "") {
		if err != nil {
			return err
		}
		var s start
		_, err := fmt.Sscanf(strings.TrimPrefix(o.Key, c.area(markerArea)), "%08x/%016x", &s.node, &s.epoch)
		if err != nil || o.Key != blobwal.MarkerKey(c.cluster, 0, uint32(s.node), uint64(s.epoch)) {
			c.unknown(o.Key, "it is not named like the marker of a node's start")
			continue
		}
		text, there, err := c.small(ctx, o.Key)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		var digits []byte
		if _, err := fmt.Sscanf(text, "picomq incarnation 1 %x\n", &digits); err != nil || len(digits) != len(commands.Incarnation{}) {
			c.fail(Format, o.Key, "restore it from a copy", "it does not hold the marker of a node's start")
			continue
		}
		c.starts[s] = commands.Incarnation(digits)
		if n := c.nodes[s.node]; n.Epoch == s.epoch && n.Incarnation != c.starts[s] {
			c.fail(Foreign, o.Key, "the log was cloned or restored to an older state; use the one that this bucket belongs to",
				"it was written by incarnation %s, and in the log epoch %d of node %d is incarnation %s", c.starts[s], s.epoch, s.node, n.Incarnation)
		}
	}
	return nil
}

// history checks the claims on rows that the log kept. Those on rows that left it
// are checked with the archive.
func (c *checker) history(ctx context.Context) error {
	for _, w := range c.claims {
		if w.at.Index < c.archive.Truncated.Index || w.at.Row == 0 {
			continue
		}
		if w.at.Index == c.archive.Truncated.Index {
			c.checkClaim(w, c.archive.Truncated)
			continue
		}
		rows, err := retry(ctx, func() ([]commands.Row, error) { return c.Log.Read(ctx, w.at.Index-1, 1, 1) })
		switch {
		case errors.Is(err, commands.ErrTruncated): // meanwhile: it was archived, as it was
		case errors.Is(err, commands.ErrDamaged):
			c.fail(Damaged, theLog, "restore the database", "%v", err)
		case err != nil:
			return err
		case len(rows) == 0:
			c.fail(LostRows, w.object, "the database failed over to, or was restored from, a copy without its last rows: bring those back; see Backup",
				"it is evidence of row %v, and the log ends before it", w.at)
		default:
			c.checkClaim(w, rows[0].Position())
		}
	}
	return nil
}

// checkClaim compares a claim with what stands in its place.
func (c *checker) checkClaim(w claim, found commands.Position) {
	if w.at != found {
		c.fail(LostRows, w.object, "the log lost rows and went on without them, or is another cluster's; see Backup",
			"it is evidence of row %v, and the log has %v there", w.at, found)
	}
}
