package statemachine

import (
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// delete removes a stream on request.
func (s *State) delete(m *commands.Delete, out *AppendResult) {
	p, ok := s.findLive(m.ID)
	if !ok {
		out.Verdict = NotFound
		return
	}
	out.describe(m.ID, p.row())
	s.remove(m.ID, p)
	out.Verdict = Accepted
}

// expire removes those of the streams that are past their deadline.
func (s *State) expire(m *commands.Expire, out *Result) {
	if len(m.IDs) > commands.MaxIDs {
		out.Verdict = Invalid
		return
	}
	for _, id := range m.IDs {
		if p, ok := s.find(id); ok && s.due(p.row()) {
			s.remove(id, p)
			out.Removed++
		}
	}
	out.Verdict = NotDue
	if out.Removed > 0 {
		out.Verdict = Accepted
	}
}

// remove takes a stream out of the state with all that belongs to it. Its
// number is never given out again.
func (s *State) remove(id stream.ID, p place) {
	n := id.Dense() / pageRows
	contentType, extents, d := p.row().contentType, *p.extents(), p.side()
	s.names.remove(p.page.names[p.at])
	s.items -= s.hashStream(id, p)
	lock := s.streams.lock(n)
	lock.Lock()
	s.keepRow(id, p)
	s.vacate(p)
	lock.Unlock()
	// No reader comes upon these any more.
	for _, e := range extents {
		s.refer(e.Segment, -1, -int64(e.Bytes))
	}
	s.counts.Extents -= uint64(len(extents))
	s.types.release(contentType)
	s.releaseProducers(d)
	if p.page.live == 0 {
		s.dropPage(n)
	}
	s.note(id)
}

// releaseProducers gives back what a stream's side refers to.
func (s *State) releaseProducers(d *side) {
	if d == nil {
		return
	}
	for i := range d.producers {
		s.producers.release(d.producers[i].id)
	}
	s.counts.Producers -= uint64(len(d.producers))
}

// vacate empties a row's place. The page is locked.
func (s *State) vacate(p place) {
	s.counts.Streams--
	p.page.live--
	if p.row().expiry != stream.ExpiresNever {
		s.counts.Expiring--
		p.page.expiring--
	}
	*p.row() = row{}
	p.page.names[p.at] = ""
	p.page.extents[p.at] = nil
	p.page.sides[p.at] = nil
}

// dropPage drops a page without streams, unless the next stream belongs into
// it. While a snapshot runs the page may hold rows kept for it, so it goes when
// the snapshot has ended.
func (s *State) dropPage(n uint64) {
	switch {
	case n == (s.lastDense+1)/pageRows:
	case s.running != nil:
		s.emptied = append(s.emptied, n)
	default:
		s.streams.put(n, nil)
	}
}
