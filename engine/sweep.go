package engine

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// Bounds of what is read ahead for whoever goes through streams.
const (
	sweepsKept  = 32               // the one that nobody came to for longest makes place for another
	sweepNear   = 512              // streams: clients read and create side by side, and so not quite in order
	sweepStands = 10 * time.Second // after that it begins anew
	fewStreams  = 8                // read one after the other before anything is read ahead

	firstSweep    = 1 << 20  // bytes that are ahead of a sweep at first, then twice as many each time
	sweepStreams  = 1024     // looked at in one go, those that are gone included
	sweepSpans    = 2048     // extents
	sweepGap      = 64 << 10 // bytes between two ranges of a segment up to which they are one
	perStreamMost = maxReach // bytes of one stream
)

// sweeps remembers which streams were read whole, from start to tail, one after the
// other in the order of their numbers, about: whoever does that, to index them or to
// copy them, has what comes next read ahead. That is the order in which streams were
// created and lie in packed segments.
type sweeps struct {
	mu   sync.Mutex
	last [sweepsKept]sweep
}

// sweep is one that is expected to go on.
type sweep struct {
	last, front stream.ID // the stream that was read last, and the farthest
	streams     int       // that were read
	at          time.Time // when the last one was
	ahead       stream.ID // the first stream that is not read ahead; at first the lowest
	look        stream.ID // when the front comes here, more is
	reach       int       // bytes that may be ahead
	perStream   int       // bytes of those that were read ahead last, on average
	busy        bool      // somebody has more read ahead just now
}

// come notes that a stream was read whole, and tells how many bytes are to be read
// ahead from which stream on, so that at most so many are: none if it is not time.
// Otherwise the caller calls went.
func (s *sweeps) come(id stream.ID, now time.Time, most int) (_ *sweep, from stream.ID, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.find(id, now)
	if id != x.last {
		x.streams++
	}
	x.last, x.front, x.at = id, max(x.front, id), now
	if x.streams < fewStreams {
		x.ahead = min(x.ahead, id)
		return nil, 0, 0
	}
	if x.busy || (x.front < x.look && x.front < x.ahead) {
		return nil, 0, 0
	}
	if x.front > x.ahead+sweepNear { // while there was no room it was overtaken
		x.ahead = x.front - sweepNear
	}
	x.reach = min(max(2*x.reach, firstSweep), most)
	bytes = x.reach - max(0, int(x.ahead)-int(x.front)-1)*x.perStream
	x.lookAgain()
	x.busy = bytes > 0
	return x, x.ahead, bytes
}

// went says how far streams from one on were read ahead, and how many bytes of them.
func (s *sweeps) went(x *sweep, from, to stream.ID, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.ahead != from { // another has its place
		return
	}
	x.busy = false
	if to > from {
		x.perStream, x.ahead = bytes/int(to-from), to
	}
	x.lookAgain()
}

// lookAgain has more read ahead when the readers have come through a quarter.
func (x *sweep) lookAgain() {
	x.look = x.front + 1
	if x.ahead > x.front {
		x.look = x.front + max(1, (x.ahead-x.front)/4)
	}
}

// find is the sweep that a stream belongs to, or a new one.
func (s *sweeps) find(id stream.ID, now time.Time) *sweep {
	oldest := &s.last[0]
	for i := range s.last {
		x := &s.last[i]
		if x.front+sweepNear > id && id+sweepNear > x.front && now.Sub(x.at) < sweepStands {
			return x
		}
		if !x.busy && x.at.Before(oldest.at) {
			oldest = x
		}
	}
	*oldest = sweep{front: id, ahead: id, at: now}
	return oldest
}

// sweepOn has what comes next read ahead for whoever read a stream whole.
func (e *Engine) sweepOn(id stream.ID) {
	x, from, bytes := e.sweeps.come(id, time.Now(), e.cache.AheadMost()/3*2)
	if bytes <= 0 {
		return
	}
	to, found := e.readStreamsAhead(from, bytes)
	e.sweeps.went(x, from, to, found)
}

// readStreamsAhead begins to fetch about so many bytes of the streams from one on,
// and returns up to which and how many they are: none while not all of them are under
// way, so that it is tried again for the rest.
func (e *Engine) readStreamsAhead(from stream.ID, bytes int) (to stream.ID, found int) {
	view := e.replica.View()
	var spans []span
	for to = from; to < from+sweepStreams && found < bytes && len(spans) < sweepSpans; to++ {
		ofStream := 0
		for _, x := range view.Extents(to, 0, aheadExtents) {
			if ofStream >= perStreamMost {
				break
			}
			s := newSpan(&x, perStreamMost-ofStream)
			spans, ofStream = append(spans, s), ofStream+s.bytes
		}
		found += ofStream
	}
	all := true
	for _, s := range joinSpans(spans) {
		begun := e.cache.Ahead(s.segment, s.from, s.to)
		if all = all && begun == blockcache.Underway; begun == blockcache.NoRoom {
			break
		}
	}
	if !all {
		return from, 0
	}
	return to, found
}

// span is records [from, to) of a segment, which take about so many bytes.
type span struct {
	segment  blockcache.Segment
	from, to uint32
	bytes    int
}

// newSpan is the first records of an extent, as many as take about so many bytes.
func newSpan(x *statemachine.Located, bytes int) span {
	ordinal, n, perRecord := about(x, x.First, x.End(), bytes)
	return span{segmentOf(x), ordinal, ordinal + n, int(n) * perRecord}
}

// joinSpans makes those of one segment that lie side by side one, so that they are
// fetched together.
func joinSpans(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(compareIDs(a.segment.ID, b.segment.ID), cmp.Compare(a.from, b.from))
	})
	joined := spans[:0]
	for _, s := range spans {
		if n := len(joined); n > 0 && joined[n-1].touches(s) {
			joined[n-1].to = max(joined[n-1].to, s.to)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// touches tells whether a span that begins no earlier is better fetched along.
func (s *span) touches(next span) bool {
	if s.segment.ID != next.segment.ID {
		return false
	}
	gap := max(0, int(next.from)-int(s.to))
	return gap*next.bytes/int(next.to-next.from) <= sweepGap
}

func compareIDs(a, b blobwal.SegmentID) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Sequence, b.Sequence))
}
