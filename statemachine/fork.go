package statemachine

import (
	"math"
	"slices"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// maxCascade bounds the deleted parents that one entry removes because their
// last fork went. Those beyond it count as absent at once, and Expire removes
// them.
const maxCascade = 4096

// heritage is what a new stream begins with: its configuration as resolved, and
// for a fork the records [start, end) of its parent, the last of them cut to so
// many bytes unless cut is 0.
type heritage struct {
	config     stream.Config
	parent     stream.ID // zero: not a fork
	at         stream.Offset
	sub        uint64
	start, end stream.Offset
	cut        uint32
}

// inherit resolves what a create asks of its parent, and changes nothing but
// the answer, which describes the parent when it is not Accepted.
func (s *State) inherit(m *commands.Create, out *AppendResult) (heritage, Verdict) {
	h := heritage{config: m.Config}
	f := m.Fork
	if f == nil {
		return h, Accepted
	}
	p, ok := s.findLive(f.Parent)
	if !ok {
		return h, ParentGone
	}
	r := p.row()
	out.describe(f.Parent, r)
	if r.deleted() {
		return h, ParentDeleted
	}
	h.parent, h.at, h.sub, h.cut, h.start = f.Parent, r.tail, f.Sub, f.Cut, r.start
	if f.At != nil {
		h.at = *f.At
	}
	contentType := s.types.value(r.contentType)
	beyond := uint64(0) // records of the parent above the fork offset
	switch {
	case stream.IsJSON(contentType):
		beyond = f.Sub
	case f.Sub > 0:
		beyond = 1
	}
	switch {
	case h.config.ContentType != "" && stream.MediaType(h.config.ContentType) != stream.MediaType(contentType):
		return h, Conflict
	case h.at < r.start:
		return h, Trimmed
	case h.at > r.tail || beyond > uint64(r.tail-h.at):
		return h, BeyondTail
	case r.forked() && p.side().forks == math.MaxUint32:
		return h, Full
	}
	h.end = h.at + stream.Offset(beyond)
	if h.cut > 0 && (stream.IsJSON(contentType) || !cuttable(p, h.at, h.cut)) {
		return h, Invalid
	}
	if h.config.ContentType == "" {
		h.config.ContentType = contentType
	}
	if h.config.Expiry.Kind == stream.ExpiresNever {
		h.config.Expiry = r.expiryConfig()
	}
	if r.retained() {
		h.config.Retention = h.config.Retention.Or(p.side().retention)
	}
	*out = AppendResult{} // it is about the fork from here on
	return h, Accepted
}

// validFork checks the ranges that the state relies on.
func validFork(f *commands.Fork) bool {
	return (f.Sub == 0 || f.At != nil) && (f.Cut == 0 || uint64(f.Cut) == f.Sub)
}

// cuttable tells whether the record at an offset can be cut to so many bytes, as
// far as the state knows: it knows a record's length only where an earlier cut
// says it.
func cuttable(p place, at stream.Offset, bytes uint32) bool {
	n, first := p.extents().find(p.row().start, at)
	e := p.extents().rows[n].from(first)
	return !e.Cut() || bytes < e.Bytes
}

// extents are the parent's, up to where the heritage ends.
func (h *heritage) extents(of *extents) extents {
	whole := h.end
	if h.cut > 0 {
		whole--
	}
	n, first := of.find(h.start, whole)
	if n == len(of.rows) {
		return makeExtents(slices.Clone(of.rows), h.start)
	}
	rows := append(make([]stored, 0, n+2), of.rows[:n]...)
	last, inside := of.rows[n].from(first), uint32(whole-first)
	if inside > 0 {
		rows = append(rows, last.head(inside).stored())
	}
	if h.cut > 0 {
		rows = append(rows, cutExtent(last, inside, h.cut).stored())
	}
	return makeExtents(rows, h.start)
}

// bequeath counts a fork as its parent's, and returns what it begins with: its
// part of the parent's extents, and how it began.
func (s *State) bequeath(h *heritage) (extents, *side) {
	from, _ := s.find(h.parent)
	inherited := h.extents(from.extents())
	s.beginRow(h.parent, from)
	from.makeSide().forks++
	from.row().flags |= flagForked
	s.endRow(h.parent, from)
	name := stream.Name(from.page.names[from.at])
	return inherited, &side{fork: &stream.Fork{Parent: h.parent, From: name, At: h.at, Sub: h.sub, End: h.end}}
}

// descends tells whether a stream began as the fork that a create asks for. The
// parent is the same if its name is: it may have been replaced since.
func (s *State) descends(d *side, f *commands.Fork) bool {
	if d == nil || d.fork == nil || f == nil {
		return (d == nil || d.fork == nil) && f == nil
	}
	same := d.fork.Parent == f.Parent
	if p, ok := s.find(f.Parent); ok {
		same = p.page.names[p.at] == string(d.fork.From)
	}
	return same && d.fork.Sub == f.Sub && (f.At == nil || *f.At == d.fork.At)
}

// bury makes a stream whose forks live a deleted one: it keeps its name, its
// media type and its parent, and has no records, producers or deadline any more.
func (s *State) bury(id stream.ID, p place) {
	n := id.Dense() / pageRows
	rows, old := p.extents().rows, p.side()
	s.items -= s.hashStream(id, p)
	lock := s.streams.lock(n)
	lock.Lock()
	s.keepRow(id, p)
	r := p.row()
	s.countExpiring(p, -1)
	r.start, r.touched, r.limit, r.expiry = r.tail, 0, 0, stream.ExpiresNever
	if r.retained() {
		s.counts.Retained--
	}
	r.flags = r.flags&^(flagClosed|flagStreamSeq|flagRetained) | flagDeleted
	*p.extents() = extents{}
	p.page.sides[p.at] = &side{fork: old.fork, forks: old.forks}
	p.page.changes++
	lock.Unlock()
	s.items += s.hashStream(id, p)
	s.counts.Deleted++
	s.referAll(rows, -1)
	s.releaseProducers(old)
	s.note(id)
}

// disown tells a parent that one of its forks went. It returns the parent when
// that was the last that kept it.
func (s *State) disown(fork *stream.Fork) (stream.ID, place, bool) {
	p, ok := s.find(fork.Parent)
	if !ok {
		return 0, p, false // it expired
	}
	s.beginRow(fork.Parent, p)
	s.countExpiring(p, -1)
	d := p.side()
	d.forks--
	if d.forks == 0 {
		p.row().flags &^= flagForked
	}
	s.countExpiring(p, 1)
	s.endRow(fork.Parent, p)
	return fork.Parent, p, p.row().orphaned()
}
