package blockcache

import (
	"maps"
	"time"

	"github.com/picomq/picomq/blobwal"
)

// sweptFor is how long a segment counts as read all over after the last fetch for that.
const sweptFor = time.Second

// sweeps are the segments that are being read all over, with the time of the last
// fetch for it. They share the room for what is read ahead: what is far ahead of the
// readers of one would else keep those of the others waiting. Not safe for
// concurrent use.
type sweeps struct {
	last   map[blobwal.SegmentID]time.Time
	looked time.Time // when those that ended were last looked for
}

// share is how many of so many bytes may be ahead of the readers of a segment, which
// is one of the sweeps now: an equal part of three quarters of them, so that some are
// left for others and for what blocks weigh beside their bytes.
func (s *sweeps) share(id blobwal.SegmentID, bytes int) int {
	now := time.Now()
	s.last[id] = now
	if now.Sub(s.looked) > sweptFor {
		s.looked = now
		maps.DeleteFunc(s.last, func(_ blobwal.SegmentID, last time.Time) bool { return now.Sub(last) > sweptFor })
	}
	return max(bytes/4*3/len(s.last), firstWindow)
}

// ended says that all of a segment was fetched.
func (s *sweeps) ended(id blobwal.SegmentID) { delete(s.last, id) }
