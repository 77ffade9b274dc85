package statemachine

import "github.com/picomq/picomq/stream"

// Held is consecutive extents of one stream.
type Held struct {
	ID      stream.ID
	Fork    bool // its records may be others' too: it is a fork, or has forks
	Extents []Extent
}

// Holders scans the streams after one and up to another, in the order of their
// ids, for extents in the segments that in accepts. It stops at the stream with
// which it came to max extents, and returns it to go on after: zero at the end. A
// stream may have several Held. in is called while a stream is locked: only then
// does [View.Segment] tell what the slot of its extent holds, for slots are used
// again.
func (v View) Holders(after, last stream.ID, in func(slot uint32) bool, max int) (list []Held, next stream.ID) {
	end := min(v.s.public.lastDense.Load(), last.Dense())
	found := 0
	for dense := after.Dense() + 1; dense <= end; dense++ {
		if v.s.streams.at(dense/pageRows) == nil {
			dense |= pageRows - 1 // none of its streams is there
			continue
		}
		held, extents := v.heldBy(stream.MakeID(0, dense), in)
		list = append(list, held...)
		if found += extents; found >= max && dense < end {
			return list, stream.MakeID(0, dense)
		}
	}
	return list, 0
}

// heldBy is one stream's extents in the segments that in accepts, and how many
// they are.
func (v View) heldBy(id stream.ID, in func(slot uint32) bool) (list []Held, found int) {
	p, lock := v.lock(id)
	if lock == nil {
		return nil, 0
	}
	defer lock.RUnlock()
	r := p.row()
	gap := true // before the extent that comes
	for _, e := range p.extents().all(r.start) {
		if !in(e.Segment) {
			gap = true
			continue
		}
		if gap {
			list = append(list, Held{ID: id, Fork: r.isFork() || r.forked()})
			gap = false
		}
		last := &list[len(list)-1]
		last.Extents = append(last.Extents, e)
		found++
	}
	return list, found
}
