package upkeep

import (
	"cmp"
	"slices"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
)

// catalogue is what the log knew of segments at a moment, for a comparison with
// a listing that takes a while: 32 bytes a segment.
//
// It is taken in three steps whose order makes the judgement on orphans right:
//
//  1. index: an entry at or before it was applied.
//  2. nodes: as they were then or later. An epoch below a node's own is fenced
//     from here on, and so is that of a node that is gone: no command of it adds a
//     segment any more. An epoch is the index of a registration, so neither does a
//     command of an epoch at or before index that no node has or had: there was no
//     such registration.
//  3. known: after that. What of a fenced epoch is not here now never will be;
//     what was here and has gone since was collected.
//
// So an object of a fenced epoch that is not in known is one that no reader will
// ever be sent to, and no commit will come for, however long ago this was and
// however far behind the log this node is. Of an epoch that is not fenced
// nothing follows from not being in known: its commit may be on its way.
type catalogue struct {
	index commands.Index
	nodes map[commands.NodeID]commands.Epoch // below it all are fenced
	known []knownSegment                     // ascending
}

// knownSegment is a segment and whether the listing has it.
type knownSegment struct {
	node     commands.NodeID
	slot     uint32
	epoch    commands.Epoch
	sequence uint64
	seen     bool
}

func (k *knownSegment) compare(node commands.NodeID, epoch commands.Epoch, sequence uint64) int {
	return cmp.Or(cmp.Compare(k.node, node), cmp.Compare(k.epoch, epoch), cmp.Compare(k.sequence, sequence))
}

func takeCatalogue(view statemachine.View) *catalogue {
	c := &catalogue{index: view.Index(), nodes: make(map[commands.NodeID]commands.Epoch)}
	for _, n := range view.Nodes() {
		c.nodes[n.Node] = n.Epoch
		if n.Gone {
			c.nodes[n.Node]++
		}
	}
	c.known = make([]knownSegment, 0, view.Counts().Segments)
	for from, more := uint32(0), true; more; more = from != 0 {
		var list []statemachine.Slotted
		list, from = view.Segments(from, scanSegments)
		for i := range list {
			s := &list[i]
			c.known = append(c.known, knownSegment{node: s.Node, slot: s.Slot, epoch: s.Epoch, sequence: s.Sequence})
		}
	}
	slices.SortFunc(c.known, func(a, b knownSegment) int { return a.compare(b.node, b.epoch, b.sequence) })
	return c
}

// find is the segment of an object, or nil.
func (c *catalogue) find(id blobwal.SegmentID) *knownSegment {
	at, ok := slices.BinarySearchFunc(c.known, id, func(k knownSegment, id blobwal.SegmentID) int {
		return k.compare(commands.NodeID(id.Node), commands.Epoch(id.Epoch), id.Sequence)
	})
	if !ok {
		return nil
	}
	return &c.known[at]
}

// orphan tells whether nothing refers to a segment that is not known, and never
// will.
func (c *catalogue) orphan(view statemachine.View, id blobwal.SegmentID) bool {
	node, epoch := commands.NodeID(id.Node), commands.Epoch(id.Epoch)
	current, registered := c.nodes[node]
	switch {
	case !registered:
		return uint64(epoch) <= uint64(c.index)
	case epoch < current:
		return true
	default:
		// Of the epoch in force, what the log refuses to commit. A later epoch is one
		// of a start that this node has not heard of yet, and GivenUp says no.
		return epoch == current && view.GivenUp(node, epoch, id.Sequence)
	}
}
