package blockcache

import (
	"sync"

	"github.com/picomq/picomq/blobwal"
)

// firstWindow is how many bytes the first fetch for a sequential reader takes.
const firstWindow = 128 << 10

// segmentIndex is an index and how far its segment is being read ahead. The
// latter is a guess shared by all readers of the segment; when they disturb each
// other it only makes fetches smaller.
type segmentIndex struct {
	*blobwal.Index

	mu     sync.Mutex // guards all below
	next   uint32     // the block after the last sequential fetch
	window int        // bytes of the last sequential fetch; 0 before the first
}

// plan is the end of the range [number, to) of blocks to fetch: just the one
// that is needed, and for a sequential reader those after it that are of the
// same stream, not cached yet, and fit the window with it.
func (x *segmentIndex) plan(number uint32, sequential bool, limit int, cached func(uint32) bool) (to uint32) {
	to = number + 1
	if !sequential {
		return to
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.window > 0 && number == x.next {
		x.window = min(2*x.window, limit)
	} else {
		x.window = min(firstWindow, limit)
	}
	first := &x.Blocks[number]
	bytes := int(first.Length)
	for int(to) < len(x.Blocks) && x.Blocks[to].Stream == first.Stream && !cached(to) {
		if bytes += int(x.Blocks[to].Length); bytes > x.window {
			break
		}
		to++
	}
	x.next = to
	return to
}
