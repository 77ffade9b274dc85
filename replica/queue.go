package replica

import (
	"slices"
	"sync"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// Decision is what the log decided about one enqueued group of commands.
type Decision struct {
	Index   commands.Index
	Time    stream.Time           // log time of the entry
	Results []statemachine.Result // one per command
}

// Done receives what came of one enqueued group of commands, or an error that
// says whether anything may have been written. It is called once and must not
// block: on the loop, or where the replica was found to have ended.
type Done func(d Decision, err error)

// item is one Enqueue: commands that are applied together.
type item struct {
	commands []commands.Command
	bytes    int
	expires  time.Time
	epoch    commands.Epoch // the only one to be proposed under; 0: any
	done     Done
}

// queue holds what waits for the next row. Safe for concurrent use.
type queue struct {
	limit int
	ready chan struct{} // capacity 1: something was added

	mu     sync.Mutex
	items  []*item
	bytes  int
	closed error // set when nothing is taken any more
}

func newQueue(limit int) *queue { return &queue{limit: limit, ready: make(chan struct{}, 1)} }

// add appends an item, or says why not; then nothing was written.
func (q *queue) add(it *item) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return q.closed
	}
	if q.bytes > 0 && q.bytes+it.bytes > q.limit {
		return stream.Errorf(stream.CodeOverloaded, "%d bytes of commands wait for the log; nothing was written, try again", q.bytes)
	}
	q.items = append(q.items, it)
	q.bytes += it.bytes
	q.signal()
	return nil
}

// signal tells the loop to look.
func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take removes the oldest items, as many as fit limit bytes and at least one.
func (q *queue) take(limit int) []*item {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for n < len(q.items) && (n == 0 || size+q.items[n].bytes <= limit) {
		size += q.items[n].bytes
		n++
	}
	q.bytes -= size
	return q.cut(n)
}

// expired removes the items whose time to be sent is over.
func (q *queue) expired(now time.Time) []*item {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.items) && now.After(q.items[n].expires) {
		q.bytes -= q.items[n].bytes
		n++
	}
	return q.cut(n)
}

// cut takes the first n items off. The queue's array keeps nothing of them: what
// an item holds is as large as a segment.
func (q *queue) cut(n int) []*item {
	taken := slices.Clone(q.items[:n])
	clear(q.items[:n])
	q.items = q.items[n:]
	return taken
}

// close refuses all further items with err and returns those that waited.
func (q *queue) close(err error) []*item {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = err
	}
	left := q.items
	q.items, q.bytes = nil, 0
	return left
}

// size is the bytes that wait.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// remove takes an item out and reports whether it still waited.
func (q *queue) remove(it *item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.items {
		if other == it {
			q.items = append(q.items[:i:i], q.items[i+1:]...)
			q.bytes -= it.bytes
			return true
		}
	}
	return false
}
