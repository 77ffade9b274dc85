package statemachine

import (
	"math"

	"github.com/picomq/picomq/stream"
)

// Extent is consecutive records of one stream that lie in one segment: Count
// records from offset First on, the first of them being record number Ordinal
// of the segment. 24 bytes.
type Extent struct {
	First   stream.Offset
	Segment uint32 // slot
	Ordinal uint32
	Count   uint32 // at least 1
	Bytes   uint32 // that the records take in the segment; an estimate after a trim inside the extent
}

// End is the offset after the extent's last record.
func (e Extent) End() stream.Offset { return e.First + stream.Offset(e.Count) }

// continues tells whether next lies in the segment right behind e, so that both
// are one extent.
func (e Extent) continues(next Extent) bool {
	return e.Segment == next.Segment && e.Ordinal+e.Count == next.Ordinal && e.End() == next.First &&
		uint64(e.Bytes)+uint64(next.Bytes) <= math.MaxUint32
}

// addExtent adds records at the tail. The row is locked.
func (s *State) addExtent(id stream.ID, p place, e Extent) {
	extents := p.extents()
	if n := len(*extents); n > 0 && (*extents)[n-1].continues(e) {
		last := &(*extents)[n-1]
		s.items -= hashExtent(id, *last)
		last.Count += e.Count
		last.Bytes += e.Bytes
		s.items += hashExtent(id, *last)
		s.refer(e.Segment, 0, int64(e.Bytes))
		return
	}
	*extents = append(grow(*extents), e)
	s.items += hashExtent(id, e)
	s.counts.Extents++
	s.refer(e.Segment, 1, int64(e.Bytes))
}

// grow makes room for one more with an eighth of slack: appending alone would
// double, and most streams are small.
func grow[T any](s []T) []T {
	if len(s) < cap(s) {
		return s
	}
	return append(make([]T, 0, len(s)+len(s)/8+1), s...)
}

// dropBelow drops the records below an offset that is at most the tail: whole
// extents go, the one that holds the offset is cut. The row is locked.
func (s *State) dropBelow(id stream.ID, p place, to stream.Offset) {
	extents := p.extents()
	rest := *extents
	for len(rest) > 0 && rest[0].End() <= to {
		s.dropExtent(id, rest[0])
		rest = rest[1:]
	}
	if s.running != nil {
		// The snapshot may be reading the old array.
		rest = append([]Extent(nil), rest...)
	}
	if len(rest) > 0 && rest[0].First < to {
		s.cutExtent(id, &rest[0], uint32(to-rest[0].First))
	}
	if len(rest) == 0 {
		rest = nil
	}
	*extents = rest
}

// dropExtent takes an extent out of the digest and of its segment's references.
func (s *State) dropExtent(id stream.ID, e Extent) {
	s.items -= hashExtent(id, e)
	s.counts.Extents--
	s.refer(e.Segment, -1, -int64(e.Bytes))
}

// cutExtent drops the first n records of an extent, 0 < n < Count. Where the
// bytes of a single record end is not known here, so they go in proportion.
func (s *State) cutExtent(id stream.ID, e *Extent, n uint32) {
	bytes := uint32(uint64(e.Bytes) * uint64(n) / uint64(e.Count))
	s.items -= hashExtent(id, *e)
	e.First += stream.Offset(n)
	e.Ordinal += n
	e.Count -= n
	e.Bytes -= bytes
	s.items += hashExtent(id, *e)
	s.refer(e.Segment, 0, -int64(bytes))
}
