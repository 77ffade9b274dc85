package statemachine

import (
	"slices"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// How segments of the model come and go.

// segmentName tells segments apart for ever; slots are used again.
type segmentName struct {
	node     commands.NodeID
	epoch    commands.Epoch
	sequence uint64
}

func nameOf(g *Segment) segmentName { return segmentName{g.Node, g.Epoch, g.Sequence} }

// modelRecord is where one record lies.
type modelRecord struct {
	offset  stream.Offset
	in      segmentName
	ordinal uint32
	cut     uint32 // bytes of it that count; 0: all
}

// follows tells whether the record lies right behind another, so that both are
// of one extent.
func (r modelRecord) follows(before modelRecord) bool {
	return r.in == before.in && r.ordinal == before.ordinal+1 && r.cut == 0 && before.cut == 0
}

// flatten is the records of extents one by one.
func flatten(extents []Located) (records []modelRecord) {
	for _, e := range extents {
		for i := range e.Count() {
			r := modelRecord{offset: e.First + stream.Offset(i), in: nameOf(&e.In), ordinal: e.Ordinal + i}
			if e.Cut() {
				r.cut = e.Bytes
			}
			records = append(records, r)
		}
	}
	return records
}

// spend uses a sequence up, unless it was.
func (n *modelNode) spend(sequence uint64, givenUp []uint64) Verdict {
	for _, sequence := range givenUp {
		if !n.used[sequence] {
			n.given[sequence] = true
		}
	}
	switch {
	case n.given[sequence]:
		return GivenUp
	case n.used[sequence]:
		return Used
	}
	n.used[sequence] = true
	return Accepted
}

// addSegment puts a segment into the lowest slot that is free.
func (m *model) addSegment(g Segment) uint32 {
	slot := slices.Index(m.segments, nil)
	if slot < 0 {
		slot = len(m.segments)
		m.segments = append(m.segments, nil)
	}
	m.segments[slot] = &g
	return uint32(slot)
}

func (m *model) segment(slot uint32) *Segment {
	if uint64(slot) >= uint64(len(m.segments)) {
		return nil
	}
	return m.segments[slot]
}

// dead tells whether no record lies in a segment.
func (m *model) dead(g *Segment) bool {
	for _, st := range m.streams {
		for _, r := range st.records {
			if r.in == nameOf(g) {
				return false
			}
		}
	}
	return true
}

func (m *model) doom(c *commands.Doom) Result {
	out := verdict(NotDue)
	for _, slot := range c.Slots {
		if g := m.segment(slot); g != nil && g.Doomed == 0 && m.dead(g) {
			g.Doomed = max(m.activeTime, 1)
			out.Verdict, out.Removed = Accepted, out.Removed+1
		}
	}
	return out
}

func (m *model) collected(c *commands.Collected) Result {
	out := verdict(NotDue)
	for _, slot := range c.Slots {
		if g := m.segment(slot); g != nil && g.Doomed != 0 {
			m.segments[slot] = nil
			for n := len(m.segments); n > 0 && m.segments[n-1] == nil; n-- {
				m.segments = m.segments[:n-1]
			}
			out.Verdict, out.Removed = Accepted, out.Removed+1
		}
	}
	return out
}

func (m *model) pack(id commands.NodeID, n *modelNode, c *commands.Pack) Result {
	if c.Level == 0 || c.Oldest < 0 || c.Oldest > c.Newest || c.Newest > m.logTime || c.First > c.Last {
		return verdict(Invalid)
	}
	out := verdict(n.spend(c.Sequence, c.GivenUp))
	if out.Verdict == Accepted {
		out.Segment = m.addSegment(Segment{
			Node: id, Epoch: n.epoch, Sequence: c.Sequence, Size: c.Size, Level: c.Level,
			Time: m.logTime, Oldest: c.Oldest, Newest: c.Newest, First: c.First, Last: c.Last,
		})
	}
	return out
}

func (m *model) swap(id commands.NodeID, n *modelNode, c *commands.Swap) Result {
	into := m.segment(c.Slot)
	if into == nil || nameOf(into) != (segmentName{id, n.epoch, c.Sequence}) || into.Level == 0 || into.Doomed != 0 {
		return verdict(NotFound)
	}
	out := verdict(NotDue)
	it := c.Runs()
	for run := (commands.Run{}); it.Next(&run); {
		if m.swapRun(into, &run) {
			out.Verdict, out.Removed = Accepted, out.Removed+1
		}
	}
	return out
}

// swapRun moves records one by one, if all of them are where the run says, and
// each of its pieces is a whole extent.
func (m *model) swapRun(into *Segment, run *commands.Run) bool {
	st := m.find(run.ID)
	if st == nil {
		return false
	}
	said, begins := m.said(run, st.info.Start)
	at := 0
	for at < len(st.records) && st.records[at].offset < max(run.First, st.info.Start) {
		at++
	}
	if len(said) == 0 || at+len(said) > len(st.records) {
		return false
	}
	for i, r := range said {
		if st.records[at+i] != r || r.in == nameOf(into) || st.begins(at+i) != begins[i] {
			return false
		}
	}
	if !st.begins(at + len(said)) {
		return false
	}
	for i := range said {
		r := &st.records[at+i]
		r.in, r.ordinal, r.cut = nameOf(into), run.Ordinal+uint32(r.offset-run.First), 0
	}
	return true
}

// begins tells whether an extent begins with a record, or ends before it.
func (st *modelStream) begins(at int) bool {
	return at == 0 || at == len(st.records) || !st.records[at].follows(st.records[at-1])
}

// said is the records of a run's pieces from an offset on, and with which of
// them a piece begins.
func (m *model) said(run *commands.Run, start stream.Offset) (records []modelRecord, begins []bool) {
	offset := run.First
	for _, p := range run.Pieces {
		g := m.segment(p.Slot)
		if g == nil {
			g = &Segment{} // of no record
		}
		for i := range p.Count {
			if offset >= start {
				r := modelRecord{offset: offset, in: nameOf(g), ordinal: p.Ordinal + i}
				if st := m.find(run.ID); p.Cut {
					r.cut = st.cutAt(offset)
				}
				begins = append(begins, i == 0 || len(records) == 0)
				records = append(records, r)
			}
			offset++
		}
	}
	return records, begins
}

// cutAt is how the stream's record at an offset is cut, which a piece does not
// say; a whole one is none that a cut piece means.
func (st *modelStream) cutAt(offset stream.Offset) uint32 {
	for _, r := range st.records {
		if r.offset == offset && r.cut != 0 {
			return r.cut
		}
	}
	return 1 << 31
}

// count counts the segments, given the references to each.
func (m *model) count(references map[segmentName]Segment) (c Counts) {
	c.Slots = uint64(len(m.segments))
	for _, g := range m.segments {
		if g == nil {
			continue
		}
		c.Segments++
		c.SegmentBytes += g.Size
		c.Referenced += references[nameOf(g)].Referenced
		if references[nameOf(g)].Extents == 0 {
			c.Dead++
			c.DeadBytes += g.Size
		}
		if g.Doomed != 0 {
			c.Doomed++
		}
	}
	return c
}
