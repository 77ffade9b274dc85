package blockcache

import (
	"context"

	"github.com/picomq/picomq/blobwal"
)

// Index is the index of a segment. Errors are as in [Cache.Block].
func (c *Cache) Index(ctx context.Context, segment Segment) (*blobwal.Index, error) {
	if recent := c.recent(ctx, segment); recent != nil {
		return c.indexOf(segment, recent)
	}
	if segment.Size <= wholeBytes {
		whole, err := c.whole(ctx, segment)
		if err != nil {
			return nil, err
		}
		return c.indexOf(segment, whole)
	}
	index, err := c.index(ctx, segment)
	if err != nil {
		return nil, err
	}
	return index.Index, nil
}

// indexOf is the index of an object that is in memory.
func (c *Cache) indexOf(segment Segment, whole *resident) (*blobwal.Index, error) {
	whole.once.Do(whole.parse)
	if whole.err != nil {
		return nil, c.refuse(segment, whole.err)
	}
	return whole.index, nil
}
