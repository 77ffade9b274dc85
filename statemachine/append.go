package statemachine

import (
	"math"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// commitSegment makes a segment known and applies its appends in order. A
// segment none of whose appends is accepted keeps a row without references.
func (s *State) commitSegment(n *node, m *commands.CommitSegment, out *Result) {
	if m.Count > commands.MaxAppends || int(m.Count) != len(m.Flags) || len(m.GivenUp) > commands.MaxGivenUp {
		out.Verdict = Invalid // not a decoded command: those are checked
		return
	}
	if out.Verdict = s.spend(n, m.Sequence, m.GivenUp); out.Verdict != Accepted {
		return
	}
	out.Segment = s.addSegment(Segment{
		Node: n.Node.Node, Epoch: n.Epoch, Sequence: m.Sequence, Size: m.Size,
		Time: s.logTime, Oldest: s.logTime, Newest: s.logTime,
	})
	out.Appends = make([]AppendResult, m.Count)
	it := m.Appends()
	var a commands.Append
	var ordinal uint64
	for i := 0; it.Next(&a); i++ {
		s.append(&a, out.Segment, ordinal, &out.Appends[i])
		ordinal += uint64(a.Records)
	}
}

// spend uses a segment's sequence up, and those that are given up: none of them
// can be committed later.
func (s *State) spend(n *node, sequence uint64, givenUp []uint64) (verdict Verdict) {
	s.changeNode(n, func() {
		for _, sequence := range givenUp {
			if !n.used.has(sequence) {
				n.givenUp.add(sequence)
			}
		}
		switch {
		case n.givenUp.has(sequence):
			verdict = GivenUp
		case n.used.has(sequence):
			verdict = Used
		case s.counts.Segments == maxSegments:
			verdict = Full
		default:
			n.used.add(sequence)
			verdict = Accepted
		}
	})
	return verdict
}

// append accepts or refuses one append: its records, its create, its producer,
// Stream-Seq, close and touch, all together or nothing at all. ordinal is the
// number of its first record within the segment.
func (s *State) append(a *commands.Append, segment uint32, ordinal uint64, out *AppendResult) {
	if !validRequest(a) || a.Bytes > math.MaxUint32 || ordinal+uint64(a.Records) > maxCount {
		out.Verdict = Invalid
		return
	}
	e := makeExtent(0, segment, uint32(ordinal), a.Records, uint32(a.Bytes))
	if a.Create != nil {
		s.appendNew(a, e, out)
		return
	}
	p, ok := s.reach(a.ID, out)
	if !ok {
		return
	}
	if out.Verdict = s.judge(p.row(), p.side(), a, out); out.Verdict == Accepted {
		s.write(a.ID, p, a, e, a.Close, out)
	}
}

// appendNew creates a stream with its first records. The append is judged
// before the stream is made, against one that has its heritage only.
func (s *State) appendNew(a *commands.Append, e Extent, out *AppendResult) {
	closes := a.Close || a.Create.Closed
	h, ok := s.mayCreate(a.Create, closes, out)
	if !ok {
		return
	}
	if out.Verdict = s.judge(&row{tail: h.end}, nil, a, out); out.Verdict != Accepted {
		return
	}
	id, p := s.newStream(a.Create, &h)
	s.write(id, p, a, e, closes, out)
}

// write does what was judged acceptable. An extent without records stands for
// none.
func (s *State) write(id stream.ID, p place, a *commands.Append, e Extent, closes bool, out *AppendResult) {
	r := p.row()
	first := r.tail
	e.First = first
	room := roomFor(p.extents().rows, e)
	s.beginRow(id, p)
	if e.Count() > 0 {
		p.extents().rows = room
		s.addExtent(id, p, e)
		r.tail += stream.Offset(e.Count())
	}
	producer := -1
	if a.HasProducer {
		producer = s.acceptProducer(id, p.makeSide(), &a.Producer, first)
		out.ProducerEpoch, out.ProducerSeq = a.Producer.Epoch, a.Producer.Seq
	}
	if a.HasStreamSeq {
		s.setStreamSeq(id, p, string(a.StreamSeq))
	}
	if closes {
		r.flags |= flagClosed
		if producer >= 0 {
			p.side().closer = uint32(producer) + 1
		}
	}
	s.touch(r)
	s.endRow(id, p)
	s.note(id)
	out.Verdict, out.First, out.FirstKnown = Accepted, first, true
	out.describe(id, r)
}

// setStreamSeq keeps the last accepted Stream-Seq. The row is locked.
func (s *State) setStreamSeq(id stream.ID, p place, value string) {
	d := p.makeSide()
	if p.row().streamSeq() {
		s.items -= hashStreamSeq(id, d.streamSeq)
	}
	d.streamSeq = value
	p.row().flags |= flagStreamSeq
	s.items += hashStreamSeq(id, value)
}

// touch restarts a sliding deadline. The row is locked.
func (s *State) touch(r *row) {
	if r.expiry == stream.ExpiresIdle {
		r.touched = s.activeTime
	}
}
