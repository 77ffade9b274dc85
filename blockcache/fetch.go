package blockcache

import (
	"context"

	"github.com/picomq/picomq/blobwal"
)

// wholeBytes is the size up to which an object is fetched whole: a get takes about
// as long for it as for a block, and the index would be another one before.
const wholeBytes = 256 << 10

// whole is a small segment, fetched at most once for all callers.
func (c *Cache) whole(ctx context.Context, segment Segment) (*resident, error) {
	key := entryKey{segment.ID, wholeEntry}
	if e := c.find(key); e != nil {
		c.blockHits.Add(1)
		return e.whole, nil
	}
	c.misses.Add(1)
	e, err := c.wait(ctx, segment, key, func() *flight { return c.flyWhole(segment, false) })
	if err != nil {
		return nil, err
	}
	return e.whole, nil
}

func (c *Cache) flyWhole(segment Segment, hint bool) *flight {
	f := &flight{first: entryKey{segment.ID, wholeEntry}, count: 1}
	if hint {
		f.bytes = int(segment.Size)
	}
	return c.takeOff(segment, f, hint, func(ctx context.Context) ([]*entry, error) {
		object, _, err := blobwal.ReadObject(ctx, c.config.Bucket, c.key(segment), segment.Size)
		if err != nil {
			return nil, err
		}
		c.fetchedBytes.Add(uint64(len(object)))
		return []*entry{{whole: newResident(object)}}, nil
	})
}

// index is the index of a large segment, fetched at most once for all callers.
func (c *Cache) index(ctx context.Context, segment Segment) (*segmentIndex, error) {
	key := entryKey{segment.ID, indexEntry}
	if e := c.find(key); e != nil {
		return e.index, nil
	}
	e, err := c.wait(ctx, segment, key, func() *flight { return c.flyIndex(segment, false) })
	if err != nil {
		return nil, err
	}
	return e.index, nil
}

func (c *Cache) flyIndex(segment Segment, hint bool) *flight {
	f := &flight{first: entryKey{segment.ID, indexEntry}, count: 1}
	return c.takeOff(segment, f, hint, func(ctx context.Context) ([]*entry, error) {
		index, err := blobwal.ReadIndex(ctx, c.config.Bucket, c.key(segment), segment.Size)
		if err != nil {
			return nil, err
		}
		return []*entry{{index: &segmentIndex{Index: index}}}, nil
	})
}

// flyBlocks begins to fetch blocks [from, to) with one get.
func (c *Cache) flyBlocks(segment Segment, index *segmentIndex, from, to uint32, hint bool) *flight {
	f := &flight{first: entryKey{segment.ID, int32(from)}, count: int(to - from), bytes: index.span(from, to)}
	if !hint {
		f.bytes -= index.span(from, from+1)
	}
	return c.takeOff(segment, f, hint, func(ctx context.Context) ([]*entry, error) {
		blocks, err := blobwal.ReadBlocks(ctx, c.config.Bucket, c.key(segment), index.Index, int(from), int(to))
		entries := make([]*entry, len(blocks))
		for i, b := range blocks {
			c.fetchedBytes.Add(uint64(b.Info.Length))
			entries[i] = &entry{block: b}
		}
		return entries, err
	})
}
