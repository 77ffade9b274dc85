package blockcache

import "sync/atomic"

// counters are updated without a lock.
type counters struct {
	tailHits, blockHits, misses   atomic.Uint64
	shared, fetches, fetchedBytes atomic.Uint64
	failures, gaveUp              atomic.Uint64
	missing, corrupt              atomic.Uint64
}

// Stats says what a cache did since its start and what it holds.
type Stats struct {
	TailHits  uint64 // blocks served from recent segments
	BlockHits uint64 // blocks served from what was fetched before
	Misses    uint64 // blocks that had to be fetched or waited for

	Shared       uint64 // callers whose fetch served several
	Fetches      uint64 // tries to read from the bucket
	FetchedBytes uint64 // of blocks and small objects
	Failures     uint64 // tries that failed and may pass
	GaveUp       uint64 // fetches that failed in all tries
	Missing      uint64 // answers that an object is missing
	Corrupt      uint64 // answers that an object is spoiled

	TailSegments int
	TailBytes    int
	BlockEntries int
	BlockBytes   int // of what was asked for before
	AheadBytes   int // of what was read ahead
}

// Stats is a snapshot.
func (c *Cache) Stats() Stats {
	segments, bytes := c.tail.size()
	c.mu.Lock()
	ahead, young, youngEntries := c.ahead.bytes, c.young.bytes, len(c.young.byKey)
	c.mu.Unlock()
	return Stats{
		TailHits: c.tailHits.Load(), BlockHits: c.blockHits.Load(), Misses: c.misses.Load(),
		Shared: c.shared.Load(), Fetches: c.fetches.Load(), FetchedBytes: c.fetchedBytes.Load(),
		Failures: c.failures.Load(), GaveUp: c.gaveUp.Load(), Missing: c.missing.Load(), Corrupt: c.corrupt.Load(),
		TailSegments: segments, TailBytes: bytes,
		BlockEntries: c.blocks.EstimatedSize() + youngEntries, BlockBytes: int(c.blocks.WeightedSize()) + young, AheadBytes: ahead,
	}
}
