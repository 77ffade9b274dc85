package blockcache

import (
	"sync"
	"sync/atomic"
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

// segmentIndex is an index and how far its segment is being read ahead. A segment
// that is asked for one small piece after the other, whatever streams they are of
// and in whatever order, is fetched in pieces that grow, and ahead of whoever
// goes through it forwards. It is a guess shared by all readers of the segment.
type segmentIndex struct {
	*blobwal.Index

	mu      sync.Mutex // guards the four below
	fetches int        // small ones, no two of them further apart than hotFor
	last    time.Time  // when the last of them was, or of those for a window
	window  int        // bytes that a fetch takes, or that are ahead of a reader; 0 at first
	next    uint32     // the block after the last fetch of a window

	mark atomic.Uint32 // the block at which a reader has more fetched; 0 when none does
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
// in all at most limit bytes, with a window of at most so many bytes.
func (x *segmentIndex) extend(from, to uint32, limit, most int) uint32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.window = min(max(growth*x.window, firstWindow), most)
	x.next = x.fit(from, to, min(x.window, limit))
	x.mark.Store(from + 1)
	return x.next
}

// extended says where a fetch that extend was asked for ended after all.
func (x *segmentIndex) extended(end uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next = end
}

// isDue tells whether goOn has something to do when a reader has come to a block.
func (x *segmentIndex) isDue(number uint32) bool {
	mark := x.mark.Load()
	return mark > 0 && number >= mark
}

// goOn is the blocks [from, to) to fetch when a reader has come to a block, so that
// a window of at most so many bytes is ahead of it again; none when enough of one is.
func (x *segmentIndex) goOn(number uint32, most int) (from, to uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case !x.isDue(number): // any more
		return 0, 0
	case number >= x.next || int(x.next) == len(x.Blocks):
		x.mark.Store(0)
		return 0, 0
	}
	x.window, x.last = min(growth*x.window, most), time.Now()
	from, to = x.next, x.fit(number, x.next, x.window)
	// Again when a quarter of that is read.
	x.mark.Store(x.fit(number, number+1, x.window/4))
	return from, to
}

// fetched says how far the fetches that goOn wanted for a reader at a block were
// begun. Where there was no room for all it is tried again half way to there.
func (x *segmentIndex) fetched(number, to, wanted uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next = max(x.next, to)
	if to < wanted {
		x.mark.Store(number + 1 + (x.next-number)/2)
	}
}

// Ahead begins to fetch what of a segment's records [from, to) is not in memory,
// as far as there is room for it: the caller says that it will ask for them soon.
// It does not wait, and what goes wrong is told to whoever asks. It returns false
// when there was no room for all of them.
func (c *Cache) Ahead(segment Segment, from, to uint32) bool {
	if from >= to || c.tail.get(segment.ID) != nil || c.askAhead(segment) {
		return true
	}
	if segment.Size <= wholeBytes {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.present(entryKey{segment.ID, wholeEntry}) {
			return true
		}
		return c.mayHint(int(segment.Size)) && c.flyWhole(segment, true) != nil
	}
	if e := c.find(entryKey{segment.ID, indexEntry}); e != nil {
		return c.aheadOf(segment, e.index, from, to)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f, underWay := c.flights[entryKey{segment.ID, indexEntry}]
	if !underWay {
		if !c.mayHint(0) {
			return false
		}
		f = c.flyIndex(segment, true)
	}
	f.then = append(f.then, func(e *entry) { c.aheadOf(segment, e.index, from, to) })
	return true
}

// mayHint tells whether so many bytes may be read ahead now, and if so takes a
// turn for it. c.mu is held.
func (c *Cache) mayHint(bytes int) bool {
	return c.ahead.room(bytes) && c.hints.TryAcquire(1)
}

// aheadOf is Ahead for a large segment whose index is there.
func (c *Cache) aheadOf(segment Segment, index *segmentIndex, from, to uint32) bool {
	first, ok := index.Find(from)
	last, known := index.Find(to - 1)
	if !ok || !known { // whoever asks for them will be told
		return true
	}
	end := last.Number + 1
	return c.hint(segment, index, first.Number, end, true) == end
}

// hint begins to fetch what is missing of blocks [from, to), in gets of at most
// ReadAheadMax, and returns how far it came. Needed says that a reader named the
// blocks.
func (c *Cache) hint(segment Segment, index *segmentIndex, from, to uint32, needed bool) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for from < to {
		if c.present(entryKey{segment.ID, int32(from)}) {
			from++
			continue
		}
		begin, end := from, c.absent(segment, from, min(to, index.fit(from, from+1, c.config.ReadAheadMax)))
		if needed {
			begin, end = c.around(segment, index, from, end)
		}
		if !c.mayHint(index.span(begin, end)) {
			return from
		}
		c.flyBlocks(segment, index, begin, end, true)
		from = end
	}
	return to
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
	share := c.sweeps.share(segment.ID, c.ahead.limit)
	begin, end = from, c.absent(segment, from, index.extend(from, to, c.config.ReadAheadMax, share))
	if end == to {
		begin = c.backwards(segment, index, from, end)
	}
	if !c.ahead.room(index.span(begin, end)) {
		begin, end = from, to
	}
	index.extended(end)
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

// goOn has more fetched, if it is time, when a reader has come to a block.
func (c *Cache) goOn(segment Segment, index *segmentIndex, number uint32) {
	if !index.isDue(number) {
		return
	}
	c.mu.Lock()
	most := c.sweeps.share(segment.ID, c.ahead.limit)
	c.mu.Unlock()
	if from, to := index.goOn(number, most); from < to {
		c.sweep(segment, index, number, from, to)
	}
}

// sweep fetches blocks [from, to) ahead of a reader who has come to a block.
func (c *Cache) sweep(segment Segment, index *segmentIndex, number, from, to uint32) {
	came := c.hint(segment, index, from, to, false)
	index.fetched(number, came, to)
	if int(came) == len(index.Blocks) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sweeps.ended(segment.ID)
	}
}
