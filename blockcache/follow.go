package blockcache

import "time"

// firstStretch is how many bytes of a segment are fetched before its readers come.
const firstStretch = 4 << 20

// Follows says that whoever goes through all streams of a segment comes to next
// after it. Where the segment is being read all over, next is taken for one that is
// too, and its index and its first blocks are fetched: so he does not wait anew at
// each segment until it is known for what it is. It does not wait, and does nothing
// where there is no room.
func (c *Cache) Follows(segment, next Segment) {
	if segment.ID == next.ID || next.Size <= wholeBytes {
		return
	}
	e := c.find(entryKey{segment.ID, indexEntry})
	if e == nil || !e.index.isReadAllOver() || c.tail.get(next.ID) != nil {
		return
	}
	if e := c.find(entryKey{next.ID, indexEntry}); e != nil {
		c.begin(next, e.index)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.present(entryKey{next.ID, indexEntry}) && c.mayHint(0) {
		f := c.flyIndex(next, true)
		f.then = append(f.then, func(e *entry) { c.begin(next, e.index) })
	}
}

// begin begins to read a segment all over from its front.
func (c *Cache) begin(segment Segment, index *segmentIndex) {
	c.mu.Lock()
	most := c.sweeps.share(segment.ID, c.ahead.limit)
	c.mu.Unlock()
	if to := index.begin(min(most, firstStretch)); to > 0 {
		c.sweep(segment, index, 0, 0, to)
	}
}

// isReadAllOver tells whether readers go through the segment just now.
func (x *segmentIndex) isReadAllOver() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.window > firstWindow && time.Since(x.last) < hotFor
}

// begin takes the segment for one that is read all over from its front, and returns
// up to where to fetch: 0 when it has been taken for that before.
func (x *segmentIndex) begin(window int) (to uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if x.window > 0 && now.Sub(x.last) < hotFor {
		return 0
	}
	x.fetches, x.last, x.window, x.next = fewFetches, now, window, 0
	x.mark.Store(1)
	return x.fit(0, 1, window)
}
