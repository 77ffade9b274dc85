package statemachine

import (
	"math"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// Segment is one committed object of the bucket.
type Segment struct {
	Epoch      commands.Epoch // at least 1
	Sequence   uint64
	Size       uint64 // bytes of the object
	Referenced uint64 // sum of the bytes of the extents in it: above Size where forks share some
	Time       stream.Time
	Node       commands.NodeID
	Extents    uint32 // extents in it; 0: the segment is dead
}

// maxSegments bounds the slots, which are 32 bits wide.
const maxSegments = math.MaxUint32

// segmentPage holds the segments of 256 consecutive slots.
type segmentPage struct {
	capture capture[Segment]
	rows    [pageRows]Segment
}

// addSegment gives a segment the next slot. Slots are dense, counted from 0,
// and no command gives one back: a dead segment keeps its row, which says that
// its object may be deleted.
func (s *State) addSegment(segment Segment) uint32 {
	slot := uint32(s.counts.Segments)
	s.counts.Segments++
	n := uint64(slot / pageRows)
	page := s.segments.at(n)
	if page == nil {
		page = &segmentPage{capture: capture[Segment]{taken: s.snapshots}}
		s.segments.put(n, page)
	}
	lock := s.segments.lock(n)
	lock.Lock()
	page.rows[slot%pageRows] = segment
	lock.Unlock()
	s.items += hashSegment(slot, &segment)
	return slot
}

// refer changes what is known of the references to a segment.
func (s *State) refer(slot uint32, extents int32, bytes int64) {
	n := uint64(slot / pageRows)
	lock := s.segments.lock(n)
	lock.Lock()
	s.referLocked(s.segments.at(n), slot, extents, bytes)
	lock.Unlock()
}

// referLocked is refer while the segment's page is locked.
func (s *State) referLocked(page *segmentPage, slot uint32, extents int32, bytes int64) {
	row := &page.rows[slot%pageRows]
	s.keepSegment(slot, page)
	s.items -= hashSegment(slot, row)
	row.Extents += uint32(extents)
	row.Referenced += uint64(bytes)
	s.items += hashSegment(slot, row)
}

// referAll is refer for all extents of a stream, which comes with them or, when
// by is -1 instead of 1, is gone. There may be millions, in the order of their
// segments: those of one segment are counted at once, and a page of segments is
// locked once.
func (s *State) referAll(extents []Extent, by int32) {
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
			s.referLocked(page, slot, by*int32(run), int64(by)*bytes)
			extents = extents[run:]
		}
		lock.Unlock()
	}
}
