package statemachine

import (
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// create makes a stream under a free name.
func (s *State) create(m *commands.Create, out *AppendResult) {
	if s.nextRefuses(m) {
		out.Verdict = Invalid
		return
	}
	h, ok := s.mayCreate(m, m.Closed, out)
	if !ok {
		return
	}
	id, p := s.newStream(m, &h)
	if m.Closed {
		s.beginRow(id, p)
		p.row().flags |= flagClosed
		s.endRow(id, p)
	}
	out.Verdict = Accepted
	out.describe(id, p.row())
}

// mayCreate decides about a create, changes nothing, and says what the stream
// would begin with. closed is whether the stream would be closed right away,
// which is part of what is compared with a stream that has the name.
func (s *State) mayCreate(m *commands.Create, closed bool, out *AppendResult) (h heritage, ok bool) {
	if !validCreate(m) {
		out.Verdict = Invalid
		return h, false
	}
	if id, bound := s.names.get(string(m.Name)); bound {
		if p, live := s.findLive(id); live {
			out.describe(id, p.row())
			out.Verdict = s.compareConfig(p, m, closed)
			return h, false
		}
	}
	if s.lastDense == maxDense {
		out.Verdict = Full
		return h, false
	}
	h, out.Verdict = s.inherit(m, out)
	return h, out.Verdict == Accepted
}

// compareConfig tells whether a stream that is there is what a create asks for.
func (s *State) compareConfig(p place, m *commands.Create, closed bool) Verdict {
	r := p.row()
	if r.deleted() {
		return Deleted
	}
	have := stream.Config{ContentType: s.types.value(r.contentType), Expiry: r.expiryConfig()}
	if r.retained() {
		have.Retention = p.side().retention
	}
	if have.Meets(m.Config, m.Fork != nil) && r.closed() == closed && s.descends(p.side(), m.Fork) {
		return Exists
	}
	return Conflict
}

// validCreate checks the ranges that the state relies on. That a name is well
// formed is checked before it is proposed.
func validCreate(m *commands.Create) bool {
	e := m.Config.Expiry
	switch e.Kind {
	case stream.ExpiresNever:
		if e.TTL != 0 || e.At != 0 {
			return false
		}
	case stream.ExpiresIdle:
		if e.TTL > stream.MaxTTL || e.At != 0 {
			return false
		}
	case stream.ExpiresAt:
		if e.TTL != 0 {
			return false
		}
	default:
		return false
	}
	return len(m.Name) >= 1 && len(m.Name) <= stream.MaxNameBytes && len(m.Config.ContentType) <= stream.MaxContentType &&
		m.Config.Retention.Age <= stream.MaxTTL && m.Config.Retention.Bytes <= stream.MaxRetentionBytes &&
		(m.Fork == nil || validFork(m.Fork))
}

// newStream makes an open stream with its heritage, under a name that is free or
// bound to a stream past its deadline, which is removed first.
func (s *State) newStream(m *commands.Create, h *heritage) (stream.ID, place) {
	if old, bound := s.names.get(string(m.Name)); bound {
		p, _ := s.find(old)
		s.remove(old, p)
	}
	s.lastDense++
	id := stream.MakeID(0, s.lastDense)
	p := s.place(id)
	name := string(m.Name)
	r := row{created: s.logTime, start: h.start, tail: h.end, expiry: h.config.Expiry.Kind, flags: flagLive}
	switch r.expiry {
	case stream.ExpiresIdle:
		r.limit, r.touched = int64(h.config.Expiry.TTL), s.activeTime
	case stream.ExpiresAt:
		r.limit = int64(h.config.Expiry.At)
	case stream.ExpiresNever:
	}
	r.contentType = s.types.acquire(h.config.ContentType)
	var inherited extents
	var d *side
	if h.parent != 0 {
		r.flags |= flagFork
		inherited, d = s.bequeath(h)
	}
	if h.config.Retention != (stream.Retention{}) {
		r.flags |= flagRetained
		if d == nil {
			d = new(side)
		}
		d.retention = h.config.Retention
	}
	lock := s.streams.lock(id.Dense() / pageRows)
	lock.Lock()
	s.occupy(p, r, name, inherited, d)
	lock.Unlock()
	s.items += s.hashStream(id, p)
	s.referAll(inherited.rows, 1)
	s.names.set(name, id)
	s.note(id)
	return id, p
}

// place is where the row of an id belongs; its page is made when it is missing.
func (s *State) place(id stream.ID) place {
	n := id.Dense() / pageRows
	page := s.streams.at(n)
	if page == nil {
		page = newStreamPage(s.snapshots)
		s.streams.put(n, page)
	}
	return place{page, int(id.Dense() % pageRows)}
}

// occupy puts a row where none is. The page is locked.
func (s *State) occupy(p place, r row, name string, x extents, d *side) {
	*p.row() = r
	p.page.names[p.at] = name
	p.page.extents[p.at] = x
	p.page.sides[p.at] = d
	p.page.live++
	p.page.changes++
	s.counts.Streams++
	s.countExpiring(p, 1)
	if r.deleted() {
		s.counts.Deleted++
	}
	if r.retained() {
		s.counts.Retained++
	}
}

// describe fills in the stream that the answer is about.
func (out *AppendResult) describe(id stream.ID, r *row) {
	out.ID, out.Start, out.Tail, out.Closed = id, r.start, r.tail, r.closed()
}
