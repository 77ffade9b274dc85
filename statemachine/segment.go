package statemachine

import (
	"container/heap"
	"math"
	"sync"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// Segment is one object of the bucket that commands made known.
type Segment struct {
	Epoch      commands.Epoch // at least 1; 0: there is no segment in the slot
	Sequence   uint64
	Size       uint64      // bytes of the object
	Referenced uint64      // sum of the bytes of the extents in it: above Size where forks share some
	Time       stream.Time // log time at which it became known
	Oldest     stream.Time // of its records; Time at level 0, where all records have it
	Newest     stream.Time
	Doomed     int64     // active time, in ms, since when nothing can refer to it; 0: not doomed
	First      stream.ID // the lowest and the highest stream that a packed one was written for; 0 at level 0
	Last       stream.ID
	Node       commands.NodeID
	Extents    uint32 // extents in it; 0: the segment is dead
	Level      uint8  // 0: written by appends; else packed, its records rewritten at most so often
}

// Dead tells whether nothing refers to the segment.
func (g *Segment) Dead() bool { return g.Extents == 0 }

// maxSegments bounds the slots, which are 32 bits wide.
const maxSegments = math.MaxUint32

// segmentPage holds the segments of 256 consecutive slots.
type segmentPage struct {
	capture capture[Segment]
	live    int
	rows    [pageRows]Segment
}

// freeSlots are the slots below the highest in use that hold no segment: a heap,
// since the lowest is given out first. Those that came to lie above the highest
// may still be among them.
type freeSlots []uint32

func (f freeSlots) Len() int           { return len(f) }
func (f freeSlots) Less(i, j int) bool { return f[i] < f[j] }
func (f freeSlots) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *freeSlots) Push(slot any)     { *f = append(*f, slot.(uint32)) }
func (f *freeSlots) Pop() any {
	last := len(*f) - 1
	slot := (*f)[last]
	*f = (*f)[:last]
	return slot
}

// addSegment gives a segment the lowest free slot.
func (s *State) addSegment(segment Segment) uint32 {
	slot := uint32(s.counts.Slots)
	if len(s.free) > 0 && s.free[0] < slot {
		slot = heap.Pop(&s.free).(uint32)
	} else {
		s.free = nil // all of them are above
		s.counts.Slots++
	}
	s.setSegment(slot, segment)
	return slot
}

// setSegment puts a segment into an empty slot.
func (s *State) setSegment(slot uint32, segment Segment) {
	n := uint64(slot / pageRows)
	page := s.segments.at(n)
	if page == nil {
		// Nothing of it is taken: where slots are used again, a running snapshot has
		// to learn that they were empty.
		page = new(segmentPage)
		s.segments.put(n, page)
	}
	lock := s.segments.lock(n)
	lock.Lock()
	s.keepSegment(slot, page)
	page.rows[slot%pageRows] = segment
	page.live++
	lock.Unlock()
	s.items += hashSegment(slot, &segment) + hashReferences(slot, &segment)
	s.countSegment(&segment, 1)
}

// countSegment adds a segment to the counts, or with -1 takes it out.
func (s *State) countSegment(g *Segment, by int64) {
	c := &s.counts
	c.Segments += uint64(by)
	c.SegmentBytes += uint64(by * int64(g.Size))
	c.Referenced += uint64(by * int64(g.Referenced))
	if g.Dead() {
		c.Dead += uint64(by)
		c.DeadBytes += uint64(by * int64(g.Size))
	}
	if g.Doomed != 0 {
		c.Doomed += uint64(by)
	}
}

// segment is the row of a slot, or nil where there is none. Apply goroutine only.
func (s *State) segment(slot uint32) *Segment {
	page := s.segments.at(uint64(slot / pageRows))
	if page == nil || page.rows[slot%pageRows].Epoch == 0 {
		return nil
	}
	return &page.rows[slot%pageRows]
}

// lockSegment locks a segment's row for writing, after a running snapshot has
// got it as it was.
func (s *State) lockSegment(slot uint32) (*Segment, *sync.RWMutex) {
	n := uint64(slot / pageRows)
	page, lock := s.segments.at(n), s.segments.lock(n)
	lock.Lock()
	s.keepSegment(slot, page)
	return &page.rows[slot%pageRows], lock
}

// refer changes what is known of the references to a segment.
func (s *State) refer(slot uint32, extents int32, bytes int64) {
	row, lock := s.lockSegment(slot)
	s.addReferences(slot, row, extents, bytes)
	lock.Unlock()
}

// addReferences adds references to a segment, or takes some from it. Its row is
// locked. This is a part of every append: it hashes no more than what changes.
func (s *State) addReferences(slot uint32, g *Segment, extents int32, bytes int64) {
	c := &s.counts
	wasDead := g.Dead()
	s.items -= hashReferences(slot, g)
	g.Extents += uint32(extents)
	g.Referenced += uint64(bytes)
	s.items += hashReferences(slot, g)
	c.Referenced += uint64(bytes)
	switch dead := g.Dead(); {
	case dead == wasDead:
	case dead:
		c.Dead++
		c.DeadBytes += g.Size
	default:
		c.Dead--
		c.DeadBytes -= g.Size
	}
}

// referAll is refer for all extents of a stream, which comes with them or, when
// by is -1 instead of 1, is gone. There may be millions, in the order of their
// segments: those of one segment are counted at once, and a page of segments is
// locked once.
func (s *State) referAll(extents []stored, by int32) {
	s.counts.Extents += uint64(int64(by) * int64(len(extents)))
	for len(extents) > 0 {
		n := uint64(extents[0].Segment / pageRows)
		page, lock := s.segments.at(n), s.segments.lock(n)
		lock.Lock()
		for len(extents) > 0 && uint64(extents[0].Segment/pageRows) == n {
			slot, run, bytes := extents[0].Segment, 0, int64(0)
			for ; run < len(extents) && extents[run].Segment == slot; run++ {
				bytes += int64(extents[run].Bytes)
			}
			s.keepSegment(slot, page)
			s.addReferences(slot, &page.rows[slot%pageRows], by*int32(run), int64(by)*bytes)
			extents = extents[run:]
		}
		lock.Unlock()
	}
}

// removeSegment empties a slot. A page without segments goes, unless a running
// snapshot may still come for what was kept of it: then with the snapshot.
func (s *State) removeSegment(slot uint32) {
	n := uint64(slot / pageRows)
	page := s.segments.at(n)
	row := &page.rows[slot%pageRows]
	lock := s.segments.lock(n)
	lock.Lock()
	s.keepSegment(slot, page)
	s.items -= hashSegment(slot, row) + hashReferences(slot, row)
	s.countSegment(row, -1)
	*row = Segment{}
	page.live--
	lock.Unlock()
	heap.Push(&s.free, slot)
	s.lowerSlots()
	switch {
	case page.live > 0:
	case s.running != nil && n*pageRows < s.running.slots:
		s.emptiedSegments = append(s.emptiedSegments, n)
	default:
		s.segments.put(n, nil)
	}
}

// lowerSlots lets the slots end with the highest in use, so that what a time of
// many segments needed is given back.
func (s *State) lowerSlots() {
	for s.counts.Slots > 0 && s.segment(uint32(s.counts.Slots-1)) == nil {
		s.counts.Slots--
	}
}
