package statemachine

import "github.com/picomq/picomq/commands"

// doom makes those of the segments that nothing refers to unreferencable: no
// command adds a reference to a segment that has none, but a Swap to a packed
// one, and that refuses a doomed one.
func (s *State) doom(m *commands.Doom, out *Result) {
	if len(m.Slots) > commands.MaxSlots {
		out.Verdict = Invalid
		return
	}
	for _, slot := range m.Slots {
		if g := s.segment(slot); g != nil && g.Dead() && g.Doomed == 0 {
			row, lock := s.lockSegment(slot)
			s.items -= hashSegment(slot, row)
			row.Doomed = max(s.activeTime, 1) // zero would say that it is not
			s.items += hashSegment(slot, row)
			lock.Unlock()
			s.counts.Doomed++
			out.Removed++
		}
	}
	out.settle()
}

// collected removes those of the segments that are doomed.
func (s *State) collected(m *commands.Collected, out *Result) {
	if len(m.Slots) > commands.MaxSlots {
		out.Verdict = Invalid
		return
	}
	for _, slot := range m.Slots {
		if g := s.segment(slot); g != nil && g.Doomed != 0 {
			s.removeSegment(slot)
			out.Removed++
		}
	}
	out.settle()
}

// settle is the verdict on a command that did something to some of what it named.
func (r *Result) settle() {
	r.Verdict = NotDue
	if r.Removed > 0 {
		r.Verdict = Accepted
	}
}
