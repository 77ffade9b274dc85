package statemachine

import (
	"iter"
	"slices"
	"sort"

	"github.com/picomq/picomq/stream"
)

// extents are all of one stream, in order. Since the first begins at the
// stream's start and each other where the one before ends, no offset is kept with
// them: 16 bytes an extent. The methods that need the stream's start are given it.
type extents struct {
	rows  []stored
	index *extentIndex // of many; nil: of few, which are found by walking
}

// stored is an extent without its offset.
type stored struct {
	Segment, Ordinal, Bytes uint32
	packed                  uint32
}

func (e Extent) stored() stored { return stored{e.Segment, e.Ordinal, e.Bytes, e.packed} }

// from is the extent, at an offset.
func (e stored) from(first stream.Offset) Extent {
	return Extent{First: first, Segment: e.Segment, Ordinal: e.Ordinal, Bytes: e.Bytes, packed: e.packed}
}

func (e stored) count() stream.Offset { return stream.Offset(e.packed >> 2) }

// extentIndex has the offsets of some rows, so that any is found by walking a few.
type extentIndex struct {
	// marks[i] is the offset of row i*markEvery-skip, but for i = 0: where that row
	// is one, it begins at the stream's start.
	marks []stream.Offset
	skip  int // rows before the first one that marks[0] counted, below markEvery
}

const (
	markEvery = 64
	// indexFrom is how many extents have an index.
	indexFrom = 2 * markEvery
)

// makeExtents are rows that the stream alone has, from its start on.
func makeExtents(rows []stored, start stream.Offset) extents {
	x := extents{rows: rows}
	if len(rows) < indexFrom {
		return x
	}
	x.index = &extentIndex{marks: make([]stream.Offset, 0, len(rows)/markEvery+1)}
	first := start
	for i, e := range rows {
		if i%markEvery == 0 {
			x.index.marks = append(x.index.marks, first)
		}
		first += e.count()
	}
	return x
}

// all are the extents and their places.
func (x *extents) all(start stream.Offset) iter.Seq2[int, Extent] {
	return func(yield func(int, Extent) bool) {
		first := start
		for i, e := range x.rows {
			if !yield(i, e.from(first)) {
				return
			}
			first += e.count()
		}
	}
}

// find is the place and the offset of the extent that holds an offset, or of the
// first above it; len(rows) and the tail when there is none.
func (x *extents) find(start, at stream.Offset) (place int, first stream.Offset) {
	first = start
	if x.index != nil {
		marks := x.index.marks
		if i := sort.Search(len(marks), func(i int) bool { return marks[i] > at }) - 1; i > 0 {
			place, first = i*markEvery-x.index.skip, marks[i]
		}
	}
	for ; place < len(x.rows) && first+x.rows[place].count() <= at; place++ {
		first += x.rows[place].count()
	}
	return place, first
}

// offset is that of the extent in a place, or the tail for the place after the
// last.
func (x *extents) offset(start stream.Offset, place int) stream.Offset {
	from, first := 0, start
	if x.index != nil {
		if i := min((place+x.index.skip)/markEvery, len(x.index.marks)-1); i > 0 {
			from, first = i*markEvery-x.index.skip, x.index.marks[i]
		}
	}
	for _, e := range x.rows[from:place] {
		first += e.count()
	}
	return first
}

// push adds an extent at the tail.
func (x *extents) push(e Extent, start stream.Offset) {
	x.rows = append(x.rows, e.stored())
	last := len(x.rows) - 1
	switch {
	case x.index == nil && len(x.rows) >= indexFrom:
		*x = makeExtents(x.rows, start)
	case x.index != nil && (last+x.index.skip)%markEvery == 0:
		x.index.marks = append(grow(x.index.marks), e.First)
	}
}

// without are the extents but for the first n. They share the array, unless told
// otherwise or most of it would lie idle; x is not written.
func (x *extents) without(n int, share bool) extents {
	rest := extents{rows: x.rows[n:]}
	if len(rest.rows) == 0 {
		return extents{}
	}
	if !share || n > len(rest.rows) {
		rest.rows = slices.Clone(rest.rows)
	}
	if x.index != nil && len(rest.rows) >= indexFrom {
		gone := x.index.skip + n
		rest.index = &extentIndex{marks: x.index.marks[gone/markEvery:], skip: gone % markEvery}
	}
	return rest
}

// grow makes room for one more with an eighth of slack, and what the allocator
// gives beside: appending alone would double, and most streams are small.
func grow[T any](s []T) []T {
	if len(s) < cap(s) {
		return s
	}
	return append(slices.Grow([]T(nil), len(s)+len(s)/8+1), s...)
}
