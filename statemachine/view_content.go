package statemachine

import (
	"sync"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// lock locks the page of a stream for reading, live or not. A nil lock means
// that there is no such page.
func (v View) lock(id stream.ID) (place, *sync.RWMutex) {
	n := id.Dense() / pageRows
	page := v.s.streams.at(n)
	if page == nil || id.Log() != 0 {
		return place{}, nil
	}
	lock := v.s.streams.lock(n)
	lock.RLock()
	return place{page, int(id.Dense() % pageRows)}, lock
}

// Located is an extent with the segment that it lies in. Slots are reused, so an
// extent alone means nothing a moment later. The segment's references may lack
// this one, when the entry being applied takes it away.
type Located struct {
	Extent
	In Segment
}

// Extents are up to max of the extents that hold offsets at or after from, in
// order. The first may begin below from.
func (v View) Extents(id stream.ID, from stream.Offset, max int) []Located {
	p, lock := v.lock(id)
	if lock == nil {
		return nil
	}
	defer lock.RUnlock()
	at, first := p.extents().find(p.row().start, from)
	rest := p.extents().rows[at:]
	rest = rest[:min(len(rest), max)]
	located := make([]Located, len(rest))
	for i, e := range rest {
		// The extent keeps its segment while the row is locked.
		located[i].Extent = e.from(first)
		located[i].In, _ = v.Segment(e.Segment)
		first += e.count()
	}
	return located
}

// Segment is the segment in a slot, dead ones included.
func (v View) Segment(slot uint32) (Segment, bool) {
	n := uint64(slot / pageRows)
	page := v.s.segments.at(n)
	if page == nil {
		return Segment{}, false
	}
	lock := v.s.segments.lock(n)
	lock.RLock()
	defer lock.RUnlock()
	segment := page.rows[slot%pageRows]
	return segment, segment.Epoch != 0
}

// Segmented is the index of the last applied entry that changed anything about a
// segment, how much extents have of it included: until it grows, all segments are
// as they were. The state of a snapshot takes that of its own.
func (v View) Segmented() commands.Index { return commands.Index(v.s.public.segmented.Load()) }

// Slotted is a segment and its slot.
type Slotted struct {
	Slot uint32
	Segment
}

// Segments are those in the slots from a slot on, ascending, about max of them,
// and where to go on: 0 after the last.
func (v View) Segments(from uint32, max int) (list []Slotted, next uint32) {
	slots := v.Counts().Slots
	for n := uint64(from / pageRows); n*pageRows < slots; n++ {
		if len(list) >= max {
			return list, uint32(n * pageRows)
		}
		page := v.s.segments.at(n)
		if page == nil {
			continue
		}
		lock := v.s.segments.lock(n)
		lock.RLock()
		for at := range page.rows {
			if slot := uint32(n*pageRows) + uint32(at); slot >= from && page.rows[at].Epoch != 0 {
				list = append(list, Slotted{slot, page.rows[at]})
			}
		}
		lock.RUnlock()
	}
	return list, 0
}
