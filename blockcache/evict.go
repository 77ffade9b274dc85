package blockcache

import "github.com/picomq/picomq/blobwal"

// Evict drops what the cache holds of segments that were collected: their places
// in the ring, their blocks and indexes. It goes through all that the cache
// holds once, however many segments there are, so collect them and evict them
// together.
//
// It is about memory alone, since no other segment will ever have their IDs. A
// block that a reader holds stays as long as it does; what a fetch brings that
// was under way stays until it is the next to go.
func (c *Cache) Evict(segments ...blobwal.SegmentID) {
	if len(segments) == 0 {
		return
	}
	gone := make(map[blobwal.SegmentID]struct{}, len(segments))
	for _, id := range segments {
		gone[id] = struct{}{}
	}
	c.tail.drop(gone)
	c.mu.Lock()
	c.ahead.evict(gone)
	c.young.evict(gone)
	c.mu.Unlock()
	for key := range c.blocks.Keys() {
		if _, ok := gone[key.id]; ok {
			c.blocks.Invalidate(key)
		}
	}
}

// drop takes segments out of the ring, wherever in it they are.
func (t *tail) drop(gone map[blobwal.SegmentID]struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.order[:0]
	for _, id := range t.order {
		if _, ok := gone[id]; !ok {
			kept = append(kept, id)
			continue
		}
		t.bytes -= t.byID[id].bytes
		delete(t.byID, id)
	}
	clear(t.order[len(kept):])
	t.order = kept
}
