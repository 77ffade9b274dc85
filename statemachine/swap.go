package statemachine

import (
	"slices"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// pack makes a packed segment known.
func (s *State) pack(n *node, m *commands.Pack, out *Result) {
	if m.Level == 0 || m.Oldest < 0 || m.Oldest > m.Newest || m.Newest > s.logTime || len(m.GivenUp) > commands.MaxGivenUp {
		out.Verdict = Invalid
		return
	}
	if out.Verdict = s.spend(n, m.Sequence, m.GivenUp); out.Verdict != Accepted {
		return
	}
	out.Segment = s.addSegment(Segment{
		Node: n.Node.Node, Epoch: n.Epoch, Sequence: m.Sequence, Size: m.Size, Level: m.Level,
		Time: s.logTime, Oldest: m.Oldest, Newest: m.Newest,
	})
}

// swap lets extents point into a packed segment.
func (s *State) swap(n *node, m *commands.Swap, out *Result) {
	if m.Count > commands.MaxRuns {
		out.Verdict = Invalid
		return
	}
	g := s.segment(m.Slot)
	if g == nil || g.Node != n.Node.Node || g.Epoch != n.Epoch || g.Sequence != m.Sequence || g.Level == 0 || g.Doomed != 0 {
		out.Verdict = NotFound
		return
	}
	it := m.Runs()
	for run := (commands.Run{}); it.Next(&run); {
		if s.swapRun(m.Slot, &run) {
			out.Removed++
		}
	}
	out.settle()
}

// swapRun lets one extent stand for those that the run names, if they still are
// what the run says, less what was trimmed away in front.
func (s *State) swapRun(slot uint32, run *commands.Run) bool {
	p, ok := s.find(run.ID)
	if !ok {
		return false
	}
	extents, start := *p.extents(), p.row().start
	into := makeExtent(run.First, slot, run.Ordinal, uint32(run.Records()), run.Bytes)
	if into.First > start {
		start = into.First
	}
	if into.End() <= start {
		return false
	}
	at, n := holding(extents, start), 0
	first := run.First
	for _, piece := range run.Pieces {
		old := makeExtent(first, piece.Slot, piece.Ordinal, piece.Count, 0)
		if piece.Cut {
			old.packed |= 1
		}
		first = old.End()
		if old.End() <= start {
			continue // trimmed away
		}
		if old.First < start {
			old = old.tail(uint32(start - old.First))
		}
		if at+n == len(extents) || !extents[at+n].covers(old) || piece.Slot == slot {
			return false
		}
		n++
	}
	if into.First < start {
		into = into.tail(uint32(start - into.First))
	}
	s.replaceExtents(run.ID, p, at, n, into)
	return true
}

// covers tells whether both are the same records in the same place.
func (e Extent) covers(other Extent) bool {
	return e.First == other.First && e.Segment == other.Segment && e.Ordinal == other.Ordinal && e.packed == other.packed
}

// replaceExtents puts one extent in place of the n from at on, or joins it to the
// one before. A snapshot or a reader may hold the old array, so it is not written.
func (s *State) replaceExtents(id stream.ID, p place, at, n int, into Extent) {
	old := *p.extents()
	for _, e := range old[at : at+n] {
		s.dropExtent(id, e)
	}
	list := make([]Extent, 0, len(old)-n+1)
	list = append(list, old[:at]...)
	if at > 0 && old[at-1].continues(into) {
		s.dropExtent(id, old[at-1])
		before := old[at-1]
		before.packed += into.packed
		before.Bytes += into.Bytes
		into, list = before, list[:at-1]
	}
	list = append(append(list, into), old[at+n:]...)
	s.items += hashExtent(id, into)
	s.counts.Extents++
	s.refer(into.Segment, 1, int64(into.Bytes))
	s.beginRow(id, p)
	*p.extents() = slices.Clip(list)
	s.endRow(id, p)
}
