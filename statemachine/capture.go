package statemachine

import (
	"sync"

	"github.com/picomq/picomq/stream"
)

// capture is a page's part in a running snapshot: the rows that changed since
// the snapshot began and before it came to the page, as they were. It is
// guarded by the page's stripe.
//
// Rows are kept one by one, not by whole pages: one entry may append to
// thousands of pages, and copying each whole would stall it.
type capture[T any] struct {
	taken      uint64 // generation of the last snapshot that needs nothing more of the page
	generation uint64 // of the snapshot that kept is for
	kept       []kept[T]
	has        [pageRows / 64]uint64 // rows in kept
}

type kept[T any] struct {
	at  int
	row T
}

// wants tells whether the snapshot of a generation still needs row at.
func (c *capture[T]) wants(generation uint64, at int) bool {
	if c.taken == generation {
		return false
	}
	return c.generation != generation || c.has[at/64]&(1<<(at%64)) == 0
}

// keep puts a row aside for the snapshot of a generation.
func (c *capture[T]) keep(generation uint64, at int, row T) {
	if c.generation != generation {
		*c = capture[T]{taken: c.taken, generation: generation}
	}
	c.has[at/64] |= 1 << (at % 64)
	c.kept = append(c.kept, kept[T]{at, row})
}

// take hands the kept rows out in any order. The page is done with the
// snapshot.
func (c *capture[T]) take(generation uint64) []kept[T] {
	var rows []kept[T]
	if c.generation == generation {
		rows = c.kept
	}
	*c = capture[T]{taken: generation}
	return rows
}

// rowCopy is everything of one stream, independent of the state but for the
// array of extents: all but the last of them are never written while a snapshot
// runs, since trim then works on another array, and the last is copied.
type rowCopy struct {
	id          stream.ID
	row         row // contentType means nothing here
	name        string
	contentType string
	extents     []stored // all but the last
	last        stored   // of no records when there are none
	streamSeq   string
	producers   []producerCopy
	closer      uint32
	forks       uint32
	fork        *stream.Fork
	retention   stream.Retention
}

type producerCopy struct {
	producer // its id means nothing here
	name     string
}

// keepRow lets a running snapshot have a stream's row before it changes. The
// row is locked.
func (s *State) keepRow(id stream.ID, p place) {
	if s.running == nil || id.Dense() > s.running.lastDense || !p.page.capture.wants(s.running.generation, p.at) {
		return
	}
	p.page.capture.keep(s.running.generation, p.at, s.copyRow(id, p))
}

// copyRow copies a stream. The row is locked for reading at least.
func (s *State) copyRow(id stream.ID, p place) rowCopy {
	c := rowCopy{id: id, row: *p.row(), name: p.page.names[p.at]}
	c.contentType = s.types.value(c.row.contentType)
	if rows := p.extents().rows; len(rows) > 0 {
		c.extents, c.last = rows[:len(rows)-1], rows[len(rows)-1]
	}
	d := p.side()
	if d == nil {
		return c
	}
	c.streamSeq, c.closer, c.forks, c.fork, c.retention = d.streamSeq, d.closer, d.forks, d.fork, d.retention
	c.producers = make([]producerCopy, len(d.producers))
	for i := range d.producers {
		c.producers[i] = producerCopy{d.producers[i], s.producers.value(d.producers[i].id)}
	}
	return c
}

// keepSegment lets a running snapshot have a segment's row before it changes,
// and notes that one does. The row is locked.
func (s *State) keepSegment(slot uint32, page *segmentPage) {
	s.segmented = s.index
	at := int(slot % pageRows)
	if s.running == nil || uint64(slot) >= s.running.slots || !page.capture.wants(s.running.generation, at) {
		return
	}
	page.capture.keep(s.running.generation, at, page.rows[at])
}

// release lets go of what a page kept for a snapshot that needs it no more.
func release[T any](lock *sync.RWMutex, c *capture[T], generation uint64) {
	lock.Lock()
	c.take(generation)
	lock.Unlock()
}
