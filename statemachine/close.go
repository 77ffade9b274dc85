package statemachine

import (
	"github.com/picomq/picomq/commands"
)

// closeStream closes a stream without appending. It is judged as an append of
// no records, and consumes its producer's sequence. Without a producer, closing
// what is closed is accepted again.
func (s *State) closeStream(m *commands.Close, out *AppendResult) {
	a := commands.Append{ID: m.ID, Close: true}
	if m.Producer != nil {
		a.HasProducer, a.Producer = true, *m.Producer
	}
	if m.Match != nil {
		a.HasMatch, a.Match = true, *m.Match
	}
	if m.StreamSeq != nil {
		a.HasStreamSeq, a.StreamSeq = true, []byte(*m.StreamSeq)
	}
	if !validRequest(&a) {
		out.Verdict = Invalid
		return
	}
	p, ok := s.reach(m.ID, out)
	if !ok {
		return
	}
	if p.row().closed() && !a.HasProducer {
		s.closeAgain(p, &a, out)
		return
	}
	if out.Verdict = s.judge(p.row(), p.side(), &a, out); out.Verdict == Accepted {
		s.write(m.ID, p, &a, Extent{}, true, out)
	}
}

// closeAgain answers a repeated close, which changes nothing but the idle
// deadline.
func (s *State) closeAgain(p place, a *commands.Append, out *AppendResult) {
	r := p.row()
	if a.HasMatch && a.Match != r.tail {
		out.Verdict = MatchFailed
		return
	}
	s.touchRow(a.ID, p)
	out.Verdict, out.First, out.FirstKnown = Accepted, r.tail, true
}
