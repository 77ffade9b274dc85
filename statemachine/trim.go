package statemachine

import (
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// trim moves a stream's start up. It never moves back, and stops at the tail.
func (s *State) trim(m *commands.Trim, out *AppendResult) {
	p, ok := s.reach(m.ID, out)
	if !ok {
		return
	}
	r := p.row()
	to := max(r.start, min(m.To, r.tail))
	rest, first := s.dropBelow(m.ID, p, to)
	s.beginRow(m.ID, p)
	if len(rest.rows) > 0 && first < to {
		rest.rows[0] = s.shorten(m.ID, rest.rows[0].from(first), uint32(to-first)).stored()
	}
	*p.extents() = rest
	r.start = to
	if !m.Upkeep {
		s.touch(r)
	}
	s.endRow(m.ID, p)
	out.Verdict = Accepted
	out.describe(m.ID, r)
}

// touchAll restarts the idle deadlines of streams that were read. Those that
// are gone, due or without such a deadline are passed over.
func (s *State) touchAll(m *commands.Touch, out *Result) {
	if len(m.IDs) > commands.MaxIDs {
		out.Verdict = Invalid
		return
	}
	for _, id := range m.IDs {
		if p, ok := s.findLive(id); ok {
			s.touchRow(id, p)
		}
	}
	out.Verdict = Accepted
}

// touchRow restarts one idle deadline, where there is one to move.
func (s *State) touchRow(id stream.ID, p place) {
	r := p.row()
	if r.expiry != stream.ExpiresIdle || r.touched == s.activeTime {
		return
	}
	s.beginRow(id, p)
	s.touch(r)
	s.endRow(id, p)
}
