package statemachine

import (
	"sort"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// pack makes a packed segment known.
func (s *State) pack(n *node, m *commands.Pack, out *Result) {
	sound := m.Level > 0 && 0 <= m.Oldest && m.Oldest <= m.Newest && m.Newest <= s.logTime && m.First <= m.Last
	if !sound || len(m.GivenUp) > commands.MaxGivenUp {
		out.Verdict = Invalid
		return
	}
	if out.Verdict = s.spend(n, m.Sequence, m.GivenUp); out.Verdict != Accepted {
		return
	}
	out.Segment = s.addSegment(Segment{
		Node: n.Node.Node, Epoch: n.Epoch, Sequence: m.Sequence, Size: m.Size, Level: m.Level,
		Time: s.logTime, Oldest: m.Oldest, Newest: m.Newest, First: m.First, Last: m.Last,
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
	x := swapper{s: s, slot: m.Slot}
	it := m.Runs()
	for run := (commands.Run{}); it.Next(&run); {
		if x.run(&run) {
			out.Removed++
		}
	}
	x.settle()
	out.settle()
}

// swapper applies the runs of a Swap. Runs of one stream that follow each other
// in its order make one new list of extents, whatever their number: a snapshot
// may hold the old array, so it is not written, and a stream may have many.
type swapper struct {
	s       *State
	slot    uint32 // of the packed segment
	id      stream.ID
	p       place
	live    bool
	changed bool
	old     []Extent // the stream's
	list    []Extent // what comes in place of old[:done], once something has changed
	done    int
	end     stream.Offset // of the last run applied
}

// run lets one extent stand for those that a run names, if they still are what
// it says, less what was trimmed away in front.
func (x *swapper) run(run *commands.Run) bool {
	if run.ID != x.id || run.First < x.end {
		x.settle()
		x.id = run.ID
		x.p, x.live = x.s.find(run.ID)
		if x.live {
			for _, e := range x.p.extents().all(x.p.row().start) {
				x.old = append(x.old, e)
			}
		}
	}
	if !x.live {
		return false
	}
	into := makeExtent(run.First, x.slot, run.Ordinal, uint32(run.Records()), run.Bytes)
	start := x.p.row().start
	if into.End() <= start {
		return false
	}
	if into.First < start {
		into = into.tail(uint32(start - into.First))
	}
	at, n := x.match(run, into.First)
	if n == 0 {
		return false
	}
	x.replace(at, n, into)
	return true
}

// match finds the extents that a run's pieces are, from an offset on: n of them
// after the at that follow those done; none unless all are there.
func (x *swapper) match(run *commands.Run, from stream.Offset) (at, n int) {
	rest := x.old[x.done:]
	at = sort.Search(len(rest), func(i int) bool { return rest[i].End() > from })
	first := run.First
	for _, piece := range run.Pieces {
		e := makeExtent(first, piece.Slot, piece.Ordinal, piece.Count, 0)
		if piece.Cut {
			e.packed |= 1
		}
		first = e.End()
		if e.End() <= from {
			continue // trimmed away
		}
		if e.First < from {
			e = e.tail(uint32(from - e.First))
		}
		if piece.Slot == x.slot || at+n == len(rest) || !rest[at+n].covers(e) {
			return 0, 0
		}
		n++
	}
	return at, n
}

// covers tells whether both are the same records in the same place.
func (e Extent) covers(other Extent) bool {
	return e.First == other.First && e.Segment == other.Segment && e.Ordinal == other.Ordinal &&
		e.Count() == other.Count() && e.Cut() == other.Cut()
}

// replace puts one extent in place of n that come after the next at.
func (x *swapper) replace(at, n int, into Extent) {
	rest := x.old[x.done:]
	x.changed = true
	x.keep(rest[:at])
	for _, e := range rest[at : at+n] {
		x.s.dropExtent(x.id, e)
	}
	x.s.countExtent(x.id, into)
	x.keep([]Extent{into})
	x.done += at + n
	x.end = into.End()
}

// keep adds extents to the new list, and joins the first to the one before if it
// lies right behind it.
func (x *swapper) keep(extents []Extent) {
	if n := len(x.list); n > 0 && len(extents) > 0 && x.list[n-1].continues(extents[0]) {
		last := &x.list[n-1]
		x.s.dropExtent(x.id, *last)
		x.s.dropExtent(x.id, extents[0])
		last.join(extents[0])
		x.s.countExtent(x.id, *last)
		extents = extents[1:]
	}
	x.list = append(x.list, extents...)
}

// settle gives the stream its new list.
func (x *swapper) settle() {
	if x.changed {
		x.keep(x.old[x.done:])
		rows := make([]stored, len(x.list))
		for i := range x.list {
			rows[i] = x.list[i].stored()
		}
		made := makeExtents(rows, x.p.row().start)
		x.s.beginRow(x.id, x.p)
		*x.p.extents() = made
		x.s.endRow(x.id, x.p)
	}
	*x = swapper{s: x.s, slot: x.slot, old: x.old[:0], list: x.list[:0]}
}
