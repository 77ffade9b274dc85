package statemachine

import (
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// delete removes a stream on request. While forks of it live, its name and its
// number stay.
func (s *State) delete(m *commands.Delete, out *AppendResult) {
	p, ok := s.reach(m.ID, out)
	if !ok {
		return
	}
	if p.row().forked() {
		s.bury(m.ID, p)
	} else {
		s.remove(m.ID, p)
	}
	out.Verdict = Accepted
}

// reach is the stream that a command is about. When there is none to speak of,
// the answer says so.
func (s *State) reach(id stream.ID, out *AppendResult) (place, bool) {
	p, ok := s.findLive(id)
	if !ok {
		out.Verdict = NotFound
		return p, false
	}
	out.describe(id, p.row())
	if p.row().deleted() {
		out.Verdict = Deleted
		return p, false
	}
	return p, true
}

// expire removes those of the streams that are past their deadline, and deleted
// ones that no fork keeps. Forks of what goes have all they need.
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
	out.settle()
}

// remove takes a stream out of the state with all that belongs to it, and the
// deleted ancestors that only it kept. Their numbers are never given out again.
func (s *State) remove(id stream.ID, p place) {
	for {
		fork := s.removeOne(id, p)
		if fork == nil {
			return
		}
		orphaned := false
		id, p, orphaned = s.disown(fork)
		if !orphaned || s.cascaded == maxCascade {
			return
		}
		s.cascaded++
	}
}

// removeOne takes one stream out of the state, and says how it began if it was
// a fork.
func (s *State) removeOne(id stream.ID, p place) (fork *stream.Fork) {
	n := id.Dense() / pageRows
	contentType, rows, d := p.row().contentType, p.extents().rows, p.side()
	s.names.remove(p.page.names[p.at])
	s.items -= s.hashStream(id, p)
	lock := s.streams.lock(n)
	lock.Lock()
	s.keepRow(id, p)
	s.vacate(p)
	lock.Unlock()
	s.referAll(rows, -1) // no reader comes upon these any more
	s.types.release(contentType)
	s.releaseProducers(d)
	if p.page.live == 0 {
		s.dropPage(n)
	}
	s.note(id)
	if d != nil {
		fork = d.fork
	}
	return fork
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

// countExpiring adds the stream to those that can expire, or with -1 takes it
// out, if it is one. The page is locked.
func (s *State) countExpiring(p place, by int) {
	if !p.row().canExpire() {
		return
	}
	s.counts.Expiring += uint64(by)
	if by > 0 {
		p.page.deadlines.lower(p.row())
	}
}

// vacate empties a row's place. The page is locked.
func (s *State) vacate(p place) {
	s.counts.Streams--
	p.page.live--
	p.page.changes++
	s.countExpiring(p, -1)
	if p.row().deleted() {
		s.counts.Deleted--
	}
	if p.row().retained() {
		s.counts.Retained--
	}
	*p.row() = row{}
	p.page.names[p.at] = ""
	p.page.extents[p.at] = extents{}
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
