package blockcache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/stream"
)

// wholeBytes is the size up to which an object is fetched whole: a get costs
// the same for it, and the index alone would be a second one.
const wholeBytes = 64 << 10

// retryAfter is what a caller is told to wait when the bucket is out of reach.
const retryAfter = time.Second

// whole is a small segment, fetched at most once for all callers.
func (c *Cache) whole(ctx context.Context, segment Segment) (*resident, error) {
	if e, ok := c.blocks.GetIfPresent(entryKey{segment.ID, wholeEntry}); ok {
		c.blockHits.Add(1)
		return e.whole, nil
	}
	c.misses.Add(1)
	return c.fetchWhole(ctx, segment)
}

func (c *Cache) fetchWhole(ctx context.Context, segment Segment) (*resident, error) {
	key := entryKey{segment.ID, wholeEntry}
	e, err := c.share(ctx, segment, key, func(ctx context.Context) (*entry, error) {
		object, _, err := blobwal.ReadObject(ctx, c.config.Bucket, c.key(segment), segment.Size)
		if err != nil {
			return nil, err
		}
		c.fetchedBytes.Add(uint64(len(object)))
		return c.keep(key, &entry{whole: newResident(object)}), nil
	})
	if err != nil {
		return nil, err
	}
	return e.whole, nil
}

// index is the index of a large segment, fetched at most once for all callers.
func (c *Cache) index(ctx context.Context, segment Segment) (*segmentIndex, error) {
	if e, ok := c.blocks.GetIfPresent(entryKey{segment.ID, indexEntry}); ok {
		return e.index, nil
	}
	return c.fetchIndex(ctx, segment)
}

func (c *Cache) fetchIndex(ctx context.Context, segment Segment) (*segmentIndex, error) {
	key := entryKey{segment.ID, indexEntry}
	e, err := c.share(ctx, segment, key, func(ctx context.Context) (*entry, error) {
		index, err := blobwal.ReadIndex(ctx, c.config.Bucket, c.key(segment), segment.Size)
		if err != nil {
			return nil, err
		}
		return c.keep(key, &entry{index: &segmentIndex{Index: index}}), nil
	})
	if err != nil {
		return nil, err
	}
	return e.index, nil
}

func (c *Cache) keep(key entryKey, e *entry) *entry {
	c.blocks.Set(key, e)
	return e
}

// fetchBlock fetches a block, and those that read-ahead adds.
func (c *Cache) fetchBlock(ctx context.Context, segment Segment, index *segmentIndex, number uint32, sequential bool) (*blobwal.Block, error) {
	key := entryKey{segment.ID, int32(number)}
	e, err := c.share(ctx, segment, key, func(ctx context.Context) (*entry, error) {
		to := index.plan(number, sequential, c.config.ReadAheadMax, func(n uint32) bool {
			_, ok := c.blocks.GetEntryQuietly(entryKey{segment.ID, int32(n)})
			return ok
		})
		blocks, err := blobwal.ReadBlocks(ctx, c.config.Bucket, c.key(segment), index.Index, int(number), int(to))
		if len(blocks) == 0 {
			return nil, err
		}
		// What is wrong behind the first block is the matter of who asks for it.
		for _, b := range blocks {
			c.fetchedBytes.Add(uint64(b.Info.Length))
			c.keep(entryKey{segment.ID, int32(b.Info.Number)}, &entry{block: b})
		}
		return &entry{block: blocks[0]}, nil
	})
	if err != nil {
		return nil, err
	}
	return e.block, nil
}

// share runs a fetch, or waits for the same one that another caller runs. The
// fetch goes on when this caller's context ends: others may wait for it, and
// what it brings is cached.
func (c *Cache) share(ctx context.Context, segment Segment, key entryKey, fetch func(context.Context) (*entry, error)) (*entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	done := c.flight.DoChan(fmt.Sprintf("%v/%d", key.id, key.block), func() (any, error) {
		// Another flight may have landed between the look-up and this one.
		if e, ok := c.blocks.GetEntryQuietly(key); ok {
			return e.Value, nil
		}
		return c.try(segment, fetch)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case result := <-done:
		if result.Shared {
			c.shared.Add(1)
		}
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*entry), nil
	}
}

// try runs a fetch, once its turn comes, until it succeeds or is hopeless. Its
// error is a *stream.Error.
func (c *Cache) try(segment Segment, fetch func(context.Context) (*entry, error)) (*entry, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.config.Deadline)
	defer cancel()
	if err := c.turns.Acquire(ctx, 1); err != nil {
		return nil, c.unavailable(segment, 0, err)
	}
	defer c.turns.Release(1)
	var last error
	tries := 0
	once := func() (*entry, error) {
		tries++
		ctx, cancel := context.WithTimeout(ctx, c.config.TryTimeout)
		defer cancel()
		c.fetches.Add(1)
		e, err := fetch(ctx)
		if err == nil {
			return e, nil
		}
		last = err
		if isFinal(err) {
			return nil, backoff.Permanent(err)
		}
		c.failures.Add(1)
		return nil, err
	}
	e, err := backoff.Retry(ctx, once, backoff.WithBackOff(pauses()), backoff.WithMaxTries(uint(c.config.Tries)), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil:
		return e, nil
	case isFinal(last):
		return nil, c.refuse(segment, last)
	default:
		return nil, c.unavailable(segment, tries, last)
	}
}

func pauses() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: 25 * time.Millisecond, Multiplier: 3, MaxInterval: time.Second, RandomizationFactor: 0.5,
	}
}

func isFinal(err error) bool {
	var fault *blobwal.ObjectError
	return errors.As(err, &fault)
}

func (c *Cache) unavailable(segment Segment, tries int, cause error) error {
	c.gaveUp.Add(1)
	err := stream.Errorf(stream.CodeUnavailable, "object %s could not be read in %d tries: %w", c.key(segment), tries, cause)
	err.RetryAfter = retryAfter
	return err
}
