package statemachine

import "github.com/picomq/picomq/commands"

// GivenUp tells whether no segment of a node's current epoch will ever have this
// sequence, because a command gave it up before one was committed. False says
// nothing: a sequence may yet be committed or given up, or belong to another
// epoch.
func (v View) GivenUp(node commands.NodeID, epoch commands.Epoch, sequence uint64) bool {
	t := &v.s.nodes
	t.mu.RLock()
	defer t.mu.RUnlock()
	n, _ := t.find(node)
	// A gap that closed in the set may have been one of sequences that were used.
	return n != nil && n.Epoch == epoch && n.givenUp.has(sequence) && !n.used.has(sequence)
}
