package blockcache

import (
	"sync"

	"github.com/picomq/picomq/blobwal"
)

// tail is the ring of recent segments. Order is the order of put: readers do
// not move a segment, so looking up takes a read lock only, and what leaves is
// always the oldest, whoever reads what.
type tail struct {
	limit int // bytes

	mu    sync.RWMutex // guards all below
	byID  map[blobwal.SegmentID]*resident
	order []blobwal.SegmentID // oldest first
	bytes int
}

func newTail(limit int) *tail {
	return &tail{limit: limit, byID: make(map[blobwal.SegmentID]*resident)}
}

func (t *tail) get(id blobwal.SegmentID) *resident {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byID[id]
}

func (t *tail) put(id blobwal.SegmentID, object []byte) {
	r := newResident(object)
	r.bytes += entryBytes
	if r.bytes > t.limit {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.byID[id]; known {
		return
	}
	for t.bytes+r.bytes > t.limit {
		t.dropOldest()
	}
	t.byID[id] = r
	t.order = append(t.order, id)
	t.bytes += r.bytes
}

func (t *tail) dropOldest() {
	id := t.order[0]
	t.order = t.order[1:]
	t.bytes -= t.byID[id].bytes
	delete(t.byID, id)
}

func (t *tail) size() (segments, bytes int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byID), t.bytes
}
