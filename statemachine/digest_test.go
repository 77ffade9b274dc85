package statemachine

import (
	"github.com/picomq/picomq/stream"
)

// recompute is the sum of the hashes of all items but the scalars, from a walk
// over everything: what items must be at any time.
func (s *State) recompute() uint64 {
	var sum uint64
	for dense := uint64(0); dense <= s.lastDense; dense++ {
		id := stream.MakeID(0, dense)
		if p, ok := s.find(id); ok {
			sum += s.hashStream(id, p)
		}
	}
	for slot := uint64(0); slot < s.counts.Segments; slot++ {
		sum += hashSegment(uint32(slot), &s.segments.at(slot / pageRows).rows[slot%pageRows])
	}
	for _, n := range s.nodes.list {
		sum += hashNode(n)
	}
	return sum
}
