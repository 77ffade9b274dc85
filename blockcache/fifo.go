package blockcache

import (
	"container/list"
	"time"

	"github.com/picomq/picomq/blobwal"
)

// fifo is entries in the order in which they came, bounded by their bytes. It is
// not safe for concurrent use.
type fifo struct {
	limit int // bytes
	byKey map[entryKey]*list.Element
	order list.List // of *placed, the oldest first
	bytes int
	out   func(*placed) // told of what must leave for others; may be nil
}

// placed is an entry in a fifo.
type placed struct {
	key   entryKey
	entry *entry
	bytes int
	at    time.Time // when it came
	again bool      // it was asked for again
}

func newFIFO(limit int, out func(*placed)) *fifo {
	return &fifo{limit: limit, byKey: make(map[entryKey]*list.Element), out: out}
}

func (f *fifo) has(key entryKey) bool {
	_, ok := f.byKey[key]
	return ok
}

// oldest is the one that is the next to go; nil when there is none.
func (f *fifo) oldest() *placed {
	if front := f.order.Front(); front != nil {
		return front.Value.(*placed)
	}
	return nil
}

// put adds an entry unless it is there, and makes room for it. What is larger than
// all the room goes out at once.
func (f *fifo) put(key entryKey, e *entry) {
	if f.has(key) {
		return
	}
	p := &placed{key: key, entry: e, bytes: int(weigh(key, e)), at: time.Now()}
	f.byKey[key] = f.order.PushBack(p)
	f.bytes += p.bytes
	for f.bytes > f.limit {
		f.drop(f.oldest())
	}
}

// get is an entry that stays.
func (f *fifo) get(key entryKey) *entry {
	element, ok := f.byKey[key]
	if !ok {
		return nil
	}
	p := element.Value.(*placed)
	p.again = true
	return p.entry
}

// take is an entry, which leaves.
func (f *fifo) take(key entryKey) *entry {
	element, ok := f.byKey[key]
	if !ok {
		return nil
	}
	return f.remove(element).entry
}

// drop pushes an entry out.
func (f *fifo) drop(p *placed) {
	f.remove(f.byKey[p.key])
	if f.out != nil {
		f.out(p)
	}
}

func (f *fifo) remove(element *list.Element) *placed {
	p := f.order.Remove(element).(*placed)
	delete(f.byKey, p.key)
	f.bytes -= p.bytes
	return p
}

// evict removes what is of segments that are gone.
func (f *fifo) evict(gone map[blobwal.SegmentID]struct{}) {
	for key, element := range f.byKey {
		if _, ok := gone[key.id]; ok {
			f.remove(element)
		}
	}
}
