package blockcache

import (
	"context"
	"fmt"

	"golang.org/x/sync/singleflight"

	"github.com/picomq/picomq/blobwal"
)

// Peers are the nodes that wrote segments and may still have them in memory: a
// reader of what was written just now need not wait for the bucket. They are
// trusted with nothing: what comes is verified, and the bucket has it anyway.
type Peers interface {
	// May tells whether a question about a segment may be answered: the node that
	// wrote it is to be asked, and is not known to have nothing so old.
	May(id blobwal.SegmentID) bool
	// Ask is the whole object of a segment, of this size, out of the memory of the
	// node that wrote it; nil when it is not there, or that node is not to be asked,
	// or does not answer soon, or not with what verify accepts.
	Ask(ctx context.Context, id blobwal.SegmentID, size uint64, verify func(object []byte) error) []byte
}

// peerAsks is how many questions to peers run at a time; a reader that finds all
// of them taken asks the bucket.
const peerAsks = 16

// recent is a segment that is in memory whole: in that of this node, or in that of
// the node that wrote it, from where it comes into the ring, so that one fetch
// serves all readers. Nil: neither.
func (c *Cache) recent(ctx context.Context, segment Segment) *resident {
	if r := c.tail.get(segment.ID); r != nil {
		c.tailHits.Add(1)
		return r
	}
	if c.config.Peers == nil || c.begun(segment.ID) {
		return nil
	}
	done := c.ask(segment)
	select {
	case <-ctx.Done():
		return nil
	case result := <-done:
		if result.Shared {
			c.shared.Add(1)
		}
		r, _ := result.Val.(*resident)
		return r
	}
}

// ask begins to ask the node that wrote a segment, unless that is under way.
func (c *Cache) ask(segment Segment) <-chan singleflight.Result {
	return c.peers.DoChan(segment.ID.String(), func() (any, error) { return c.askPeer(segment), nil })
}

// askAhead asks the node that wrote a segment for it before a reader does. False:
// it is the bucket's turn.
func (c *Cache) askAhead(segment Segment) bool {
	if c.config.Peers == nil || !c.config.Peers.May(segment.ID) || c.begun(segment.ID) {
		return false
	}
	c.ask(segment)
	return true
}

// begun tells whether the bucket was asked for a segment already: then it goes on.
func (c *Cache) begun(id blobwal.SegmentID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.present(entryKey{id, indexEntry}) || c.present(entryKey{id, wholeEntry})
}

func (c *Cache) askPeer(segment Segment) *resident {
	if r := c.tail.get(segment.ID); r != nil { // another flight landed meanwhile
		return r
	}
	if !c.asks.TryAcquire(1) {
		return nil
	}
	defer c.asks.Release(1)
	object := c.config.Peers.Ask(c.ctx, segment.ID, segment.Size, func(object []byte) error { return c.isObject(segment, object) })
	if object == nil {
		return nil
	}
	c.peerHits.Add(1)
	c.peerBytes.Add(uint64(len(object)))
	c.Put(segment, object)
	if r := c.tail.get(segment.ID); r != nil {
		return r
	}
	return newResident(object) // it is larger than the ring
}

// isObject verifies that bytes are a segment's object, every one of them.
func (c *Cache) isObject(segment Segment, object []byte) error {
	if uint64(len(object)) != segment.Size {
		return fmt.Errorf("it has %d bytes and the segment %d", len(object), segment.Size)
	}
	index, err := blobwal.Verify(object)
	if err != nil {
		return err
	}
	if own, key := blobwal.Key(index.Identity.Cluster, index.ID()), c.key(segment); own != key {
		return fmt.Errorf("it is the object of %s, not of %s", own, key)
	}
	return nil
}
