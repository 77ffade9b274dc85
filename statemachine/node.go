package statemachine

import (
	"cmp"
	"slices"
	"sync"

	"github.com/picomq/picomq/commands"
)

// firstLevel is the feature level in force before any Activate. Like every
// rule of replay it never changes.
const firstLevel uint32 = 1

// Node is a registered node.
type Node struct {
	Node        commands.NodeID
	Epoch       commands.Epoch // index of the registration in force
	Incarnation commands.Incarnation
	Address     string
	Level       uint32 // highest feature level it understands
	Release     string
	LastSeq     uint64 // sequence of the last proposal applied in this epoch
	Gone        bool   // departed: fenced, and its number free
}

// node is a Node with what was decided about its segments in this epoch.
type node struct {
	Node
	used    sequences // committed
	givenUp sequences // never to be committed; disjoint from used
}

// nodes are the registered nodes, ascending by number.
type nodes struct {
	mu   sync.RWMutex // guards list and what it points to
	list []*node
}

// find is the registered node of a number, or nil, and where it belongs.
func (t *nodes) find(id commands.NodeID) (*node, int) {
	at, found := slices.BinarySearchFunc(t.list, id, func(n *node, id commands.NodeID) int {
		return cmp.Compare(n.Node.Node, id)
	})
	if !found {
		return nil, at
	}
	return t.list[at], at
}

// free is the lowest number from 1 that no node has which is not gone.
func (t *nodes) free() commands.NodeID {
	free := commands.NodeID(1)
	for _, n := range t.list {
		if n.Node.Node != free || n.Gone {
			break
		}
		free++
	}
	return free
}

// wanted is the number that a registration asks for, unless it asks for any, or
// another incarnation than its own earlier one lives under it.
func (t *nodes) wanted(m *commands.RegisterNode) commands.NodeID {
	n, _ := t.find(m.Node)
	taken := n != nil && !n.Gone && m.Previous != commands.Incarnation{} && m.Previous != n.Incarnation
	if m.Node == 0 || taken {
		return t.free()
	}
	return m.Node
}

// incarnated is the node of an incarnation, or nil.
func (t *nodes) incarnated(i commands.Incarnation) *node {
	for _, n := range t.list {
		if n.Incarnation == i {
			return n
		}
	}
	return nil
}

// changeNode runs f with a node locked for writing and keeps the digest in step.
func (s *State) changeNode(n *node, f func()) {
	s.nodes.mu.Lock()
	s.items -= hashNode(n)
	f()
	s.items += hashNode(n)
	s.nodes.mu.Unlock()
}

// admit decides whether an origin has a say and moves its node's last sequence.
// Sequences of an epoch begin at 1.
func (s *State) admit(o commands.Origin) (*node, ProposalStatus) {
	n, _ := s.nodes.find(o.Node)
	switch {
	case n == nil || o.Epoch > n.Epoch:
		return nil, Unregistered
	case o.Epoch < n.Epoch:
		return nil, Fenced
	case o.Seq <= n.LastSeq:
		return nil, AlreadyApplied
	case n.Gone:
		return nil, Fenced
	}
	s.changeNode(n, func() { n.LastSeq = o.Seq })
	return n, Applied
}

// applyRegistration applies a proposal of node 0: exactly one registration,
// under the origin that its incarnation gives it.
func (s *State) applyRegistration(p *commands.Proposal) ProposalOutcome {
	if len(p.Commands) != 1 {
		return ProposalOutcome{Status: Unregistered}
	}
	m, ok := p.Commands[0].(*commands.RegisterNode)
	if !ok || p.Origin != commands.RegistrationOrigin(m.Incarnation) {
		return ProposalOutcome{Status: Unregistered}
	}
	results := make([]Result, 1)
	s.register(m, &results[0])
	return ProposalOutcome{Status: Applied, Results: results}
}

// register gives a process start its number and epoch. The same registration
// again is answered as before, so a retry whose first answer was lost is
// harmless.
func (s *State) register(m *commands.RegisterNode, out *Result) {
	if s.hasCluster && m.Cluster != s.cluster {
		out.Verdict = WrongCluster
		return
	}
	if n := s.nodes.incarnated(m.Incarnation); n != nil {
		if m.Node != 0 && m.Node != n.Node.Node && m.Previous == (commands.Incarnation{}) {
			out.Verdict = Invalid
			return
		}
		out.Verdict, out.Node, out.Epoch = Accepted, n.Node.Node, n.Epoch
		return
	}
	if m.Level < s.level {
		out.Verdict = LevelTooLow
		return
	}
	number := s.nodes.wanted(m)
	epoch := commands.Epoch(s.index)
	old, at := s.nodes.find(number)
	if old != nil && old.Epoch == epoch {
		out.Verdict = NodeTaken
		return
	}
	s.cluster, s.hasCluster = m.Cluster, true
	registered := &node{Node: Node{
		Node: number, Epoch: epoch, Incarnation: m.Incarnation, Address: m.Address, Level: m.Level, Release: m.Release,
	}}
	s.nodes.mu.Lock()
	if old != nil {
		s.items -= hashNode(old)
		s.nodes.list[at] = registered
	} else {
		s.nodes.list = slices.Insert(s.nodes.list, at, registered)
	}
	s.items += hashNode(registered)
	s.nodes.mu.Unlock()
	out.Verdict, out.Node, out.Epoch = Accepted, number, epoch
}

// depart marks a node gone, if the epoch is its own.
func (s *State) depart(m *commands.Depart) Verdict {
	n, _ := s.nodes.find(m.Node)
	if n == nil || n.Gone || n.Epoch != m.Epoch {
		return NotFound
	}
	s.changeNode(n, func() { n.Gone = true })
	return Accepted
}

// activate raises the feature level when every node that is not gone understands
// it.
func (s *State) activate(m *commands.Activate) Verdict {
	if m.Level <= s.level {
		return LevelRefused
	}
	for _, n := range s.nodes.list {
		if !n.Gone && n.Level < m.Level {
			return LevelRefused
		}
	}
	s.level, s.release = m.Level, m.Release
	return Accepted
}
