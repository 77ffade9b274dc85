package blockcache

import (
	"sync"
	"time"

	"github.com/picomq/picomq/blobwal"
)

const (
	// firstWindow is how many bytes a fetch takes when a segment begins to be read all
	// over, growth how many times as many each one takes after it.
	firstWindow = 256 << 10
	growth      = 4
	// fewFetches is how many small fetches a segment has within hotFor before it is
	// taken for one that is read all over.
	fewFetches = 4
	hotFor     = 10 * time.Second
)

// segmentIndex is an index and whether its segment is being read all over: then what
// is fetched of it grows.
type segmentIndex struct {
	*blobwal.Index

	mu      sync.Mutex // guards all below
	fetches int        // small ones, no two of them further apart than hotFor
	last    time.Time  // when the last of them was
	window  int        // bytes that a fetch takes; 0 at first
}

// span is the bytes of blocks [from, to), which are not none.
func (x *segmentIndex) span(from, to uint32) int {
	last := &x.Blocks[to-1]
	return int(last.Position + uint64(last.Length) - x.Blocks[from].Position)
}

// fit is how far blocks from one on go that take at most so many bytes, and at
// least to least.
func (x *segmentIndex) fit(from, least uint32, bytes int) (to uint32) {
	for to = least; int(to) < len(x.Blocks) && x.span(from, to+1) <= bytes; {
		to++
	}
	return to
}

// isAllOver counts a fetch of blocks [from, to) that are needed, and tells whether the
// segment is being read all over. A fetch that is large by itself tells nothing about
// its neighbours.
func (x *segmentIndex) isAllOver(from, to uint32) bool {
	if x.span(from, to) > firstWindow {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if now.Sub(x.last) > hotFor {
		x.fetches, x.window = 0, 0
	}
	x.fetches, x.last = x.fetches+1, now
	return x.fetches >= fewFetches
}

// extend is the end of a fetch of blocks [from, to) that takes those after them along,
// in all at most limit bytes.
func (x *segmentIndex) extend(from, to uint32, limit int) uint32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.window = min(max(growth*x.window, firstWindow), limit)
	return x.fit(from, to, x.window)
}

// AheadMost is how many bytes there is room for ahead of all readers.
func (c *Cache) AheadMost() int { return c.ahead.most }

// Begun says what became of an announcement.
type Begun uint8

const (
	// NoRoom for all of it, now.
	NoRoom Begun = iota
	// IndexFirst is on its way, and then as much is fetched as there is room for then.
	IndexFirst
	// Underway is all of it, or in memory.
	Underway
)

// Ahead begins to fetch what of a segment's records [from, to) is not in memory,
// as far as there is room for it: the caller says that it will ask for them soon.
// It does not wait, and what goes wrong is told to whoever asks.
func (c *Cache) Ahead(segment Segment, from, to uint32) Begun {
	if from >= to || c.tail.get(segment.ID) != nil || c.askAhead(segment) {
		return Underway
	}
	if segment.Size <= wholeBytes {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.present(entryKey{segment.ID, wholeEntry}) {
			return Underway
		}
		if !c.mayHint(int(segment.Size)) {
			return NoRoom
		}
		c.flyWhole(segment, true)
		return Underway
	}
	if e := c.find(entryKey{segment.ID, indexEntry}); e != nil {
		return c.aheadOf(segment, e.index, from, to)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f, underWay := c.flights[entryKey{segment.ID, indexEntry}]
	if !underWay {
		if !c.mayHint(0) {
			return NoRoom
		}
		f = c.flyIndex(segment, true)
	}
	f.then = append(f.then, func(e *entry) { c.aheadOf(segment, e.index, from, to) })
	return IndexFirst
}

// mayHint tells whether so many bytes may be read ahead now, and if so takes a
// turn for it. c.mu is held.
func (c *Cache) mayHint(bytes int) bool {
	return c.ahead.room(bytes) && c.hints.TryAcquire(1)
}

// aheadOf is Ahead for a large segment whose index is there.
func (c *Cache) aheadOf(segment Segment, index *segmentIndex, from, to uint32) Begun {
	first, ok := index.Find(from)
	last, known := index.Find(to - 1)
	if !ok || !known { // whoever asks for them will be told
		return Underway
	}
	return c.hint(segment, index, first.Number, last.Number+1)
}

// hint begins to fetch what is missing of blocks [from, to), in gets of at most
// ReadAheadMax.
func (c *Cache) hint(segment Segment, index *segmentIndex, from, to uint32) Begun {
	c.mu.Lock()
	defer c.mu.Unlock()
	for from < to {
		if c.present(entryKey{segment.ID, int32(from)}) {
			from++
			continue
		}
		end := c.absent(segment, from, min(to, index.fit(from, from+1, c.config.ReadAheadMax)))
		if !c.mayHint(index.span(from, end)) {
			return NoRoom
		}
		c.flyBlocks(segment, index, from, end, true)
		from = end
	}
	return Underway
}

// absent is how far blocks from one on are neither in memory nor on their way.
// c.mu is held.
func (c *Cache) absent(segment Segment, from, to uint32) uint32 {
	for n := from + 1; n < to; n++ {
		if c.present(entryKey{segment.ID, int32(n)}) {
			return n
		}
	}
	return to
}

// flyNeeded fetches a block that a reader waits for with those of the records
// before to, which it comes to next, and perhaps neighbours. c.mu is held.
func (c *Cache) flyNeeded(segment Segment, index *segmentIndex, number, to uint32) *flight {
	needed := number + 1
	if last, ok := index.Find(to - 1); ok && last.Number > number {
		needed = min(last.Number+1, index.fit(number, needed, c.config.ReadAheadMax))
	}
	needed = c.absent(segment, number, needed)
	from, end := c.around(segment, index, number, needed)
	return c.flyBlocks(segment, index, from, end, false)
}

// around is what a fetch of blocks [from, to) that are needed, none of them present,
// takes with neighbours, which it does where the segment is read all over and there
// is room. c.mu is held.
func (c *Cache) around(segment Segment, index *segmentIndex, from, to uint32) (begin, end uint32) {
	if !index.isAllOver(from, to) {
		return from, to
	}
	begin, end = from, c.absent(segment, from, index.extend(from, to, c.config.ReadAheadMax))
	if end == to {
		begin = c.backwards(segment, index, from, end)
	}
	if !c.ahead.room(index.span(begin, end)) {
		return from, to
	}
	return begin, end
}

// backwards is where a fetch of blocks [from, to) begins where those after it are in
// memory: the segment is read from its end to its front, or in no order, so those
// before are wanted as well. c.mu is held.
func (c *Cache) backwards(segment Segment, index *segmentIndex, from, to uint32) uint32 {
	for from > 0 && index.span(from-1, to) <= firstWindow && !c.present(entryKey{segment.ID, int32(from - 1)}) {
		from--
	}
	return from
}
