package fsck

import (
	"cmp"
	"slices"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
)

// slotsAtOnce is how many segments are copied from the state at a time.
const slotsAtOnce = 4096

// catalogue is the segments that the log knows, to compare a listing with.
type catalogue struct {
	known  []knownSegment // ascending
	listed []uint64       // by slot: one more than the size that the listing has; 0: it has none
}

// knownSegment is a segment's name and slot.
type knownSegment struct {
	epoch    commands.Epoch
	sequence uint64
	node     commands.NodeID
	slot     uint32
}

func (k knownSegment) compare(id blobwal.SegmentID) int {
	return cmp.Or(cmp.Compare(uint32(k.node), id.Node), cmp.Compare(uint64(k.epoch), id.Epoch), cmp.Compare(k.sequence, id.Sequence))
}

func takeCatalogue(view statemachine.View) *catalogue {
	c := &catalogue{known: make([]knownSegment, 0, view.Counts().Segments), listed: make([]uint64, view.Counts().Slots)}
	for s := range segmentsOf(view) {
		c.known = append(c.known, knownSegment{s.Epoch, s.Sequence, s.Node, s.Slot})
	}
	slices.SortFunc(c.known, func(a, b knownSegment) int { return a.compare(idOf(b.node, b.epoch, b.sequence)) })
	return c
}

// segmentsOf is all segments of a state, in the order of their slots.
func segmentsOf(view statemachine.View) func(yield func(*statemachine.Slotted) bool) {
	return func(yield func(*statemachine.Slotted) bool) {
		for from, more := uint32(0), true; more; more = from != 0 {
			var page []statemachine.Slotted
			page, from = view.Segments(from, slotsAtOnce)
			for i := range page {
				if !yield(&page[i]) {
					return
				}
			}
		}
	}
}

// find is the slot of an object's segment.
func (c *catalogue) find(id blobwal.SegmentID) (slot uint32, ok bool) {
	at, ok := slices.BinarySearchFunc(c.known, id, knownSegment.compare)
	if !ok {
		return 0, false
	}
	return c.known[at].slot, true
}

func idOf(node commands.NodeID, epoch commands.Epoch, sequence uint64) blobwal.SegmentID {
	return blobwal.SegmentID{Node: uint32(node), Epoch: uint64(epoch), Sequence: sequence}
}

// key is where a segment's object lies.
func (c *checker) key(s *statemachine.Segment) string {
	return blobwal.Key(c.cluster, idOf(s.Node, s.Epoch, s.Sequence))
}

// orphan says why nothing refers to the object of a segment that the log does not
// know, and never will; or nothing.
//
// The state is older than the listing. An epoch below the one that the state has
// for a node was fenced by then, and so was that of a node that was gone: whatever
// was committed of it is known, or was and has been collected. An epoch is the
// index of a registration: where the state has none for a node, there was none at
// or before its row. Of an epoch in force, or later, a commit may come, but for
// sequences that were given up.
func (c *checker) orphan(id blobwal.SegmentID) (why string) {
	node, epoch := commands.NodeID(id.Node), commands.Epoch(id.Epoch)
	current, registered := c.nodes[node]
	switch {
	case !registered && uint64(epoch) <= uint64(c.index):
		return "the log has no such start of a node"
	case registered && epoch < current.Epoch:
		return "its epoch is fenced"
	case registered && epoch == current.Epoch && current.Gone:
		return "its node is gone"
	case c.view.GivenUp(node, epoch, id.Sequence):
		return "its sequence was given up"
	default:
		return ""
	}
}
