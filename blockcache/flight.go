package blockcache

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/stream"
)

// retryAfter is what a caller is told to wait when the bucket is out of reach.
const retryAfter = time.Second

// flight is a fetch under way, of one entry or of blocks that follow each other.
// Whoever needs one of them waits for it.
type flight struct {
	first entryKey
	count int            // of the entries that it is to bring
	bytes int            // of those that nobody waits for yet, counted in ahead.flying
	then  []func(*entry) // run with the first of them, if it comes, before done is closed
	done  chan struct{}  // closed once the two below are set

	entries []*entry // that came, in order: all, unless one of them is wrong
	err     error    // why none came
}

// load reads the entries of a flight. With an error it returns those before the
// one that it is about.
type load func(ctx context.Context) ([]*entry, error)

func (f *flight) key(i int) entryKey {
	return entryKey{f.first.id, f.first.block + int32(i)}
}

// result is what a flight brought for a key; known is false when something
// before it was wrong, which says nothing about the key.
func (f *flight) result(key entryKey) (_ *entry, known bool, err error) {
	switch at := int(key.block - f.first.block); {
	case at < len(f.entries):
		return f.entries[at], true, nil
	case at == 0:
		return nil, true, f.err
	default:
		return nil, false, nil
	}
}

// wait is the entry of a key, from memory or from a flight: the one under way
// that brings it, or the one that begin begins, with c.mu held. A flight goes on
// when the context of its callers ends: others may wait for it, and what it
// brings is kept.
//
// The error is ctx's or a [*stream.Error].
func (c *Cache) wait(ctx context.Context, segment Segment, key entryKey, begin func() *flight) (*entry, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.mu.Lock()
		if e := c.held(key); e != nil {
			c.mu.Unlock()
			return e, nil
		}
		f, underWay := c.flights[key]
		if underWay {
			c.shared.Add(1)
		} else {
			f = begin()
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
		}
		e, known, err := f.result(key)
		switch {
		case isFinal(err):
			return nil, c.refuse(segment, err)
		case known:
			c.mu.Lock()
			c.claim(key)
			c.mu.Unlock()
			return e, err
		}
	}
}

// held is what is in memory. c.mu is held: what is neither held nor in a flight is
// in no other place.
func (c *Cache) held(key entryKey) *entry {
	if e, ok := c.blocks.GetIfPresent(key); ok {
		return e
	}
	if e := c.young.get(key); e != nil {
		return e
	}
	return c.claim(key)
}

// claim is what was read ahead, now that it is asked for. c.mu is held.
func (c *Cache) claim(key entryKey) *entry {
	e := c.ahead.take(key)
	if e != nil {
		c.young.put(key, e)
	}
	return e
}

// find is held for whoever does not hold c.mu.
func (c *Cache) find(key entryKey) *entry {
	if e, ok := c.blocks.GetIfPresent(key); ok {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held(key)
}

// present tells whether an entry is in memory or will be. c.mu is held.
func (c *Cache) present(key entryKey) bool {
	if _, flying := c.flights[key]; flying || c.ahead.has(key) || c.young.has(key) {
		return true
	}
	_, kept := c.blocks.GetEntryQuietly(key)
	return kept
}

// takeOff begins a flight. c.mu is held. The first of its entries is kept when it
// lands, the others, or all of one that nobody waits for, are read ahead.
func (c *Cache) takeOff(segment Segment, f *flight, hint bool, read load) *flight {
	f.done = make(chan struct{})
	for i := range f.count {
		c.flights[f.key(i)] = f
	}
	c.ahead.flying += f.bytes
	c.crew.run(func() {
		entries, err := c.try(segment, read)
		if hint {
			c.hints.Release(1)
		}
		c.land(f, entries, err, hint)
	})
	return f
}

func (c *Cache) land(f *flight, entries []*entry, err error, hint bool) {
	c.mu.Lock()
	for i := range f.count {
		delete(c.flights, f.key(i))
	}
	c.ahead.flying -= f.bytes
	for i, e := range entries {
		if i == 0 && !hint {
			c.young.put(f.first, e)
		} else {
			c.ahead.land(f.key(i), e)
		}
	}
	then := f.then
	c.mu.Unlock()
	f.entries, f.err = entries, err
	if len(entries) > 0 {
		for _, do := range then {
			do(entries[0])
		}
	}
	close(f.done)
}

// try reads, once its turn comes, until it succeeds or is hopeless. Its error is
// a final one (see isFinal) or a *stream.Error. Where some entries came before an
// error, it is the matter of whoever asks for what it is about.
func (c *Cache) try(segment Segment, read load) (entries []*entry, _ error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.config.Deadline)
	defer cancel()
	if err := c.turns.Acquire(ctx, 1); err != nil {
		return nil, c.unavailable(segment, 0, err)
	}
	defer c.turns.Release(1)
	var last error
	tries := 0
	once := func() (struct{}, error) {
		tries++
		ctx, cancel := context.WithTimeout(ctx, c.config.TryTimeout)
		defer cancel()
		c.fetches.Add(1)
		entries, last = read(ctx)
		switch {
		case last == nil || len(entries) > 0:
			return struct{}{}, nil
		case isFinal(last):
			return struct{}{}, backoff.Permanent(last)
		}
		c.failures.Add(1)
		return struct{}{}, last
	}
	_, err := backoff.Retry(ctx, once, backoff.WithBackOff(pauses()), backoff.WithMaxTries(uint(c.config.Tries)), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil:
		return entries, nil
	case isFinal(last):
		return nil, last
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
