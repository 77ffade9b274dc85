package engine

import (
	"sync"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// Bounds of what one reader has read ahead for it.
const (
	maxReach     = 4 << 20 // bytes beyond what it was given
	aheadExtents = 16      // extents at a time; as many gets where they are small
)

// readers remembers where reads ended that had not come to the tail, so that one
// that goes on there is known for a sequential one and read ahead for, further
// each time. Each place in it is that of one (stream, offset) or another:
// when two share one, a reader is taken for a new one, no more.
type readers struct {
	places [1024]struct {
		mu sync.Mutex
		reader
	}
}

// reader is one that is expected to go on.
type reader struct {
	stream stream.ID
	next   stream.Offset // where
	reach  int           // bytes that may be read ahead
	ahead  stream.Offset // up to where is being read ahead
	bytes  int           // between next and ahead, about
}

// at is the place of a reader that goes on at an offset of a stream.
func (r *readers) at(id stream.ID, next stream.Offset) *struct {
	mu sync.Mutex
	reader
} {
	const mix = 0x9E3779B97F4A7C15 // 2^64 by the golden ratio: neighbours are spread
	return &r.places[(uint64(id)*mix+uint64(next))*mix>>54]
}

// take is the reader that goes on at an offset, or a new one.
func (r *readers) take(id stream.ID, at stream.Offset) reader {
	place := r.at(id, at)
	place.mu.Lock()
	defer place.mu.Unlock()
	if place.stream != id || place.next != at {
		return reader{}
	}
	return place.reader
}

func (r *readers) put(x reader) {
	place := r.at(x.stream, x.next)
	place.mu.Lock()
	defer place.mu.Unlock()
	place.reader = x
}

// readAhead begins to fetch what comes after a chunk that does not end at the
// tail, if its reader went on where an earlier chunk ended.
func (e *Engine) readAhead(st *statemachine.Stream, chunk *stream.Chunk) {
	if chunk.Next == chunk.First {
		return
	}
	if chunk.Next >= st.Tail {
		if chunk.First == st.Start {
			e.sweepOn(st.ID)
		}
		return
	}
	bytes := 0
	for i := range chunk.Runs {
		bytes += len(chunk.Runs[i].Bodies)
	}
	r := e.readers.take(st.ID, chunk.First)
	known := r.stream != 0
	r = reader{
		stream: st.ID, next: chunk.Next, reach: min(max(2*r.reach, 2*bytes), maxReach),
		ahead: max(r.ahead, chunk.Next), bytes: max(r.bytes-bytes, 0),
	}
	if known && r.bytes <= r.reach*3/4 {
		e.reachOut(st, &r)
	}
	e.readers.put(r)
}

// reachOut begins to fetch what is missing to a reader's reach.
func (e *Engine) reachOut(st *statemachine.Stream, r *reader) {
	extents := e.replica.View().Extents(st.ID, r.ahead, aheadExtents)
	for i := range extents {
		if r.bytes >= r.reach || r.ahead >= st.Tail {
			return
		}
		to, bytes, ok := e.prepare(st, &extents[i], r.ahead, r.reach-r.bytes)
		if !ok {
			return
		}
		r.ahead, r.bytes = to, r.bytes+bytes
	}
}

// prepare begins to fetch the records of an extent from an offset on, about so
// many bytes of them. It returns up to where and how many that are, or false when
// there is no room for them now.
func (e *Engine) prepare(st *statemachine.Stream, x *statemachine.Located, from stream.Offset, bytes int) (to stream.Offset, _ int, ok bool) {
	from = max(from, x.First)
	ordinal, n, perRecord := about(x, from, min(x.End(), st.Tail), bytes)
	if n == 0 {
		return from, 0, true
	}
	ok = e.cache.Ahead(segmentOf(x), ordinal, ordinal+n) != blockcache.NoRoom
	return from + stream.Offset(n), int(n) * perRecord, ok
}

// about is the ordinal of an extent's record at an offset, and how many records
// from there to an end take about so many bytes: at least one, unless the offset is
// that end.
func about(x *statemachine.Located, from, end stream.Offset, bytes int) (ordinal, n uint32, perRecord int) {
	if from >= end {
		return 0, 0, 0
	}
	perRecord = int(x.Bytes/x.Count()) + 1
	n = uint32(min(int(end-from), max(bytes, 0)/perRecord+1))
	return x.Ordinal + uint32(from-x.First), n, perRecord
}

// segmentOf is the segment that an extent lies in.
func segmentOf(x *statemachine.Located) blockcache.Segment {
	return segment(blobwal.SegmentID{Node: uint32(x.In.Node), Epoch: uint64(x.In.Epoch), Sequence: x.In.Sequence}, x.In.Size)
}
