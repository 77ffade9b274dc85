package statemachine

import (
	"math"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// Extent is consecutive records of one stream that lie in one segment: Count
// records from offset First on, the first of them being record number Ordinal
// of the segment.
type Extent struct {
	First   stream.Offset
	Segment uint32 // slot
	Ordinal uint32
	// Bytes that the records take in the segment, an estimate where the extent was
	// made from a part of another. Of a cut extent, how much of the record's body
	// counts, exactly.
	Bytes  uint32
	packed uint32 // count << 2 | roughly << 1 | cut
}

// maxCount bounds the records of an extent, and so their ordinals.
const maxCount = commands.MaxSegmentRecords

// makeExtent is an extent of whole records.
func makeExtent(first stream.Offset, segment, ordinal, count, bytes uint32) Extent {
	return Extent{First: first, Segment: segment, Ordinal: ordinal, Bytes: bytes, packed: count << 2}
}

// cutExtent is the record after the first skip of an extent, cut to bytes.
func cutExtent(e Extent, skip, bytes uint32) Extent {
	return Extent{First: e.First + stream.Offset(skip), Segment: e.Segment, Ordinal: e.Ordinal + skip, Bytes: bytes, packed: 1<<2 | 1}
}

// Count is the number of records, at least 1.
func (e Extent) Count() uint32 { return e.packed >> 2 }

// Roughly tells whether Bytes may be more or less than the records take: the
// extent is the beginning of another's, as a fork has it.
func (e Extent) Roughly() bool { return e.packed&2 != 0 }

// LeastRecord is what a record takes at least, in bytes: where it ends is noted.
const LeastRecord = 4

// atLeast is how many bytes the records surely take.
func (e Extent) atLeast() uint64 {
	if e.Roughly() {
		return min(uint64(e.Bytes), LeastRecord*uint64(e.Count()))
	}
	return uint64(e.Bytes)
}

// Cut tells whether the extent is one record of whose body only the first Bytes
// count: a fork ends inside it.
func (e Extent) Cut() bool { return e.packed&1 != 0 }

// End is the offset after the extent's last record.
func (e Extent) End() stream.Offset { return e.First + stream.Offset(e.Count()) }

// continues tells whether next lies in the segment right behind e, so that both
// are one extent.
func (e Extent) continues(next Extent) bool {
	return e.Segment == next.Segment && e.Ordinal+e.Count() == next.Ordinal && e.End() == next.First &&
		!e.Cut() && !next.Cut() && uint64(e.Bytes)+uint64(next.Bytes) <= math.MaxUint32
}

// head is the first n records of an extent, 0 < n < Count. How many bytes each
// takes is not known here, so they go in proportion.
func (e Extent) head(n uint32) Extent {
	e.Bytes = uint32(uint64(e.Bytes) * uint64(n) / uint64(e.Count()))
	e.packed = n<<2 | 2
	return e
}

// tail is what head(n) leaves.
func (e Extent) tail(n uint32) Extent {
	rest := makeExtent(e.First+stream.Offset(n), e.Segment, e.Ordinal+n, e.Count()-n, e.Bytes-e.head(n).Bytes)
	rest.packed |= e.packed & 2
	return rest
}

// join adds the records of next, which continues e.
func (e *Extent) join(next Extent) {
	e.packed += next.Count() << 2
	e.packed |= next.packed & 2
	e.Bytes += next.Bytes
}

// addExtent adds records at the tail. The row is locked; room was made before.
func (s *State) addExtent(id stream.ID, p place, e Extent) {
	x := p.extents()
	if n := len(x.rows); n > 0 {
		row := &x.rows[n-1]
		if last := row.from(e.First - row.count()); last.continues(e) {
			s.items -= hashExtent(id, last)
			last.join(e)
			s.items += hashExtent(id, last)
			*row = last.stored()
			s.refer(e.Segment, 0, int64(e.Bytes))
			return
		}
	}
	x.push(e, p.row().start)
	s.countExtent(id, e)
}

// roomFor is the rows with room for one more, where e needs it. It is called
// before the row is locked, so that no reader waits for a copy of many.
func roomFor(rows []stored, e Extent) []stored {
	if n := len(rows); e.Count() == 0 || (n > 0 && rows[n-1].from(e.First-rows[n-1].count()).continues(e)) {
		return rows
	}
	return grow(rows)
}

// dropBelow drops the extents that end at or below an offset, and returns those
// that stay and the offset of the first. The row is not locked yet: what readers
// see is not written. A running snapshot may be reading the array.
func (s *State) dropBelow(id stream.ID, p place, to stream.Offset) (rest extents, first stream.Offset) {
	x := p.extents()
	n := 0
	first = p.row().start
	for ; n < len(x.rows) && first+x.rows[n].count() <= to; n++ {
		s.dropExtent(id, x.rows[n].from(first))
		first += x.rows[n].count()
	}
	return x.without(n, s.running == nil), first
}

// countExtent adds an extent to the digest and to its segment's references.
func (s *State) countExtent(id stream.ID, e Extent) {
	s.items += hashExtent(id, e)
	s.counts.Extents++
	s.refer(e.Segment, 1, int64(e.Bytes))
}

// dropExtent takes an extent out of the digest and of its segment's references.
func (s *State) dropExtent(id stream.ID, e Extent) {
	s.items -= hashExtent(id, e)
	s.counts.Extents--
	s.refer(e.Segment, -1, -int64(e.Bytes))
}

// shorten is an extent without its first n records, 0 < n < Count.
func (s *State) shorten(id stream.ID, e Extent, n uint32) Extent {
	rest := e.tail(n)
	s.items += hashExtent(id, rest) - hashExtent(id, e)
	s.refer(e.Segment, 0, int64(rest.Bytes)-int64(e.Bytes))
	return rest
}
