package statemachine

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// ErrSuperseded is the error of encoding a snapshot that was abandoned or
// replaced by a newer one.
var ErrSuperseded = errors.New("the snapshot was abandoned, or a newer one was begun")

// ErrEncoded is the error of encoding a snapshot twice.
var ErrEncoded = errors.New("the snapshot was encoded before; begin a new one")

// Snapshot is a state at one index, being encoded while the state moves on.
type Snapshot struct {
	s          *State
	generation uint64
	scalars    scalars
	nodes      []node
	ring       []checkpoint
	lastDense  uint64
	slots      uint64
	started    atomic.Bool
	whole      atomic.Bool // it has come to every page
	ended      atomic.Bool // nothing more is needed from the state
}

// BeginSnapshot fixes the state as it is now. It is called on the apply
// goroutine between two applies and costs a copy of the nodes, nothing per
// stream. Until [Snapshot.Encode] returns, Apply keeps the rows it changes for
// it, so a snapshot that is not encoded must be given up with
// [Snapshot.Abandon]. One snapshot runs at a time: beginning another supersedes
// it.
func (s *State) BeginSnapshot() *Snapshot {
	if s.running != nil {
		s.running.ended.Store(true)
		s.endSnapshot()
	}
	s.snapshots++
	p := &Snapshot{
		s: s, generation: s.snapshots, scalars: s.scalars(), lastDense: s.lastDense, slots: s.counts.Slots,
		ring: slices.Clone(s.ring.list),
	}
	for _, n := range s.nodes.list {
		c := *n
		c.used.spans, c.givenUp.spans = slices.Clone(n.used.spans), slices.Clone(n.givenUp.spans)
		p.nodes = append(p.nodes, c)
	}
	s.running = p
	return p
}

// Index is the last entry that the snapshot covers.
func (p *Snapshot) Index() commands.Index { return p.scalars.index }

// Digest is the state's digest at Index.
func (p *Snapshot) Digest() commands.Digest { return p.scalars.digest }

// Abandon gives up a snapshot that is not being encoded. It may be called from
// any goroutine, and after Encode does nothing.
func (p *Snapshot) Abandon() { p.ended.Store(true) }

// Encode writes the snapshot, once, in the format that doc.go describes. It may
// run on any goroutine while entries are applied, and locks one page at a time
// for some microseconds. What it writes is a function of the state at Index
// alone. The error is the writer's, [ErrSuperseded] or [ErrEncoded].
func (p *Snapshot) Encode(w io.Writer) error {
	if p.started.Swap(true) {
		return ErrEncoded
	}
	defer p.ended.Store(true)
	e := &chunkWriter{w: w}
	e.magic()
	e.chunk(chunkScalars, p.scalars.code)
	e.chunk(chunkNodes, func(c *codec) { list(c, leastNode, &p.nodes, codeNode) })
	e.chunk(chunkCheckpoints, func(c *codec) { list(c, leastCheckpoint, &p.ring, codeCheckpoint) })
	if err := p.encodeSegments(e); err != nil {
		return err
	}
	if err := p.encodeStreams(e); err != nil {
		return err
	}
	p.whole.Store(true)
	e.chunk(chunkEnd, func(*codec) {})
	return e.err
}

// encodeSegments writes one chunk per page of segments.
func (p *Snapshot) encodeSegments(e *chunkWriter) error {
	rows := make([]Segment, 0, pageRows)
	for n := uint64(0); n*pageRows < p.slots; n++ {
		rows = rows[:min(pageRows, p.slots-n*pageRows)]
		if !p.takeSegments(n, rows) {
			return ErrSuperseded
		}
		e.chunk(chunkSegments, func(c *codec) { list(c, leastSegment, &rows, codeSegment) })
		if e.err != nil {
			return e.err
		}
	}
	return nil
}

// takeSegments fills rows with a page's segments as they were.
func (p *Snapshot) takeSegments(n uint64, rows []Segment) bool {
	page := p.s.segments.at(n)
	lock := p.s.segments.lock(n)
	lock.Lock()
	defer lock.Unlock()
	if p.ended.Load() {
		return false
	}
	if page == nil {
		clear(rows) // none of its slots holds a segment
		return true
	}
	copy(rows, page.rows[:])
	for _, k := range page.capture.take(p.generation) {
		rows[k.at] = k.row
	}
	return true
}

// encodeStreams writes one chunk per page that has streams.
func (p *Snapshot) encodeStreams(e *chunkWriter) error {
	rows := make([]rowCopy, 0, pageRows)
	for n := uint64(0); n*pageRows <= p.lastDense; n++ {
		var ok bool
		if rows, ok = p.takeStreams(n, rows[:0]); !ok {
			return ErrSuperseded
		}
		if len(rows) == 0 {
			continue
		}
		var previous stream.ID
		e.chunk(chunkStreams, func(c *codec) {
			list(c, leastStream, &rows, func(c *codec, r *rowCopy) { r.code(c, &previous) })
		})
		if e.err != nil {
			return e.err
		}
	}
	return nil
}

// takeStreams appends a page's streams as they were, ascending by id.
func (p *Snapshot) takeStreams(n uint64, rows []rowCopy) ([]rowCopy, bool) {
	page := p.s.streams.at(n)
	if page == nil {
		return rows, !p.ended.Load()
	}
	lock := p.s.streams.lock(n)
	lock.Lock()
	defer lock.Unlock()
	if p.ended.Load() {
		return rows, false
	}
	var before [pageRows]*rowCopy
	kept := page.capture.take(p.generation)
	for i := range kept {
		before[kept[i].at] = &kept[i].row
	}
	for at := range pageRows {
		id := stream.MakeID(0, n*pageRows+uint64(at))
		switch {
		case before[at] != nil:
			rows = append(rows, *before[at])
		case page.rows[at].live() && id.Dense() <= p.lastDense:
			rows = append(rows, p.s.copyRow(id, place{page, at}))
		}
	}
	return rows, true
}

// endSnapshot lets go of a snapshot that has ended, and of pages that became
// empty meanwhile.
func (s *State) endSnapshot() {
	p := s.running
	if p == nil || !p.ended.Load() {
		return
	}
	s.running = nil
	if !p.whole.Load() {
		s.releaseKept(p)
	}
	for _, n := range s.emptiedSegments {
		if page := s.segments.at(n); page != nil && page.live == 0 {
			s.segments.put(n, nil)
		}
	}
	for _, n := range s.emptied {
		if page := s.streams.at(n); page != nil && page.live == 0 {
			s.dropPage(n)
		}
	}
	s.emptied, s.emptiedSegments = nil, nil
}

// releaseKept lets go of the rows that were kept for a snapshot which did not
// come for all of them.
func (s *State) releaseKept(p *Snapshot) {
	for n := uint64(0); n*pageRows <= p.lastDense; n++ {
		if page := s.streams.at(n); page != nil {
			release(s.streams.lock(n), &page.capture, p.generation)
		}
	}
	for n := uint64(0); n*pageRows < p.slots; n++ {
		if page := s.segments.at(n); page != nil {
			release(s.segments.lock(n), &page.capture, p.generation)
		}
	}
}
