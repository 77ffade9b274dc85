package statemachine

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/picomq/picomq/stream"
)

// Restore reads the state that a snapshot holds. It checks every chunk's
// checksum, every rule that the state relies on, and that the digest recomputed
// over what was read is the one the snapshot carries. It reads to the end of r,
// allocates no more than a small multiple of what r holds, and reads in large
// pieces, so that r needs no buffer.
func Restore(r io.Reader) (*State, error) {
	x := &restorer{s: New(), in: chunkReader{r: r}, forks: map[stream.ID]uint32{}}
	if err := x.run(); err != nil {
		return nil, fmt.Errorf("restore snapshot: %w", err)
	}
	return x.s, nil
}

// restorer is a restore in progress.
type restorer struct {
	s        *State
	in       chunkReader
	head     scalars
	names    []bound
	lastID   stream.ID
	recorded []Segment            // the references that rows of segments claim
	forks    map[stream.ID]uint32 // live forks that parents claim, less those that were read
}

func (x *restorer) run() error {
	if err := x.in.magic(); err != nil {
		return err
	}
	if err := x.single(chunkScalars, func(c *codec) { x.head.code(c) }); err != nil {
		return err
	}
	x.takeScalars()
	if err := x.single(chunkNodes, x.readNodes); err != nil {
		return err
	}
	if err := x.single(chunkCheckpoints, x.readCheckpoints); err != nil {
		return err
	}
	if err := x.in.advance(); err != nil {
		return err
	}
	if err := x.several(chunkSegments, x.readSegments); err != nil {
		return err
	}
	if err := x.several(chunkStreams, x.readStreams); err != nil {
		return err
	}
	if x.in.kind != chunkEnd || len(x.in.payload) > 0 {
		return fmt.Errorf("a chunk of kind %d where the end belongs", x.in.kind)
	}
	if err := x.in.end(); err != nil {
		return err
	}
	return x.finish()
}

// single reads a chunk that there is one of.
func (x *restorer) single(kind byte, code func(*codec)) error {
	if err := x.in.advance(); err != nil {
		return err
	}
	if x.in.kind != kind {
		return fmt.Errorf("a chunk of kind %d where kind %d belongs", x.in.kind, kind)
	}
	return x.in.decode(code)
}

// several reads the chunks of a kind that follow, and one ahead.
func (x *restorer) several(kind byte, code func(*codec)) error {
	for x.in.kind == kind {
		if err := x.in.decode(code); err != nil {
			return err
		}
		if err := x.in.advance(); err != nil {
			return err
		}
	}
	return nil
}

func (x *restorer) takeScalars() {
	s, h := x.s, &x.head
	s.index, s.logTime, s.activeTime, s.lastDense = h.index, h.logTime, h.activeTime, h.lastDense
	s.hasCluster, s.cluster, s.level, s.release = h.hasCluster, h.cluster, h.level, h.release
}

func (x *restorer) readNodes(c *codec) {
	var previous node
	list(c, leastNode, &x.s.nodes.list, func(c *codec, n **node) {
		*n = new(node)
		codeNode(c, *n)
		switch {
		case (*n).Node.Node <= previous.Node.Node:
			c.fail("node %d comes after node %d", (*n).Node.Node, previous.Node.Node)
		case uint64((*n).Epoch) > uint64(x.s.index) || (*n).Epoch == 0:
			c.fail("node %d has epoch %d in a snapshot at index %d", (*n).Node.Node, (*n).Epoch, x.s.index)
		case !(*n).used.sound() || !(*n).givenUp.sound():
			c.fail("the segment sequences of node %d are not ascending and apart", (*n).Node.Node)
		}
		previous = **n
		x.s.items += hashNode(*n)
	})
}

// sound tells whether the spans are as add keeps them.
func (q *sequences) sound() bool {
	for i, s := range q.spans {
		if s.from > s.to || (i > 0 && (s.from == 0 || q.spans[i-1].to >= s.from-1)) {
			return false
		}
	}
	return len(q.spans) <= maxRanges
}

func (x *restorer) readCheckpoints(c *codec) {
	var previous checkpoint
	list(c, leastCheckpoint, &x.s.ring.list, func(c *codec, p *checkpoint) {
		codeCheckpoint(c, p)
		if p.at%CheckpointInterval != 0 || p.at <= previous.at || p.at > x.s.index {
			c.fail("a checkpoint of index %d after %d", p.at, previous.at)
		}
		previous = *p
	})
	if len(x.s.ring.list) > maxCheckpoints {
		c.fail("%d checkpoints where at most %d belong", len(x.s.ring.list), maxCheckpoints)
	}
}

// readSegments adds segments without their references, which the extents add
// again; finish compares.
func (x *restorer) readSegments(c *codec) {
	var rows []Segment
	list(c, leastSegment, &rows, codeSegment)
	if c.err != nil {
		return
	}
	if x.s.counts.Slots+uint64(len(rows)) > x.head.slots {
		c.fail("more slots than the %d announced", x.head.slots)
		return
	}
	for _, row := range rows {
		slot := uint32(x.s.counts.Slots)
		x.s.counts.Slots++
		x.recorded = append(x.recorded, row)
		switch {
		case row == Segment{}:
			x.s.free = append(x.s.free, slot) // ascending, so a heap
			continue
		case !row.sound(x.head.logTime, x.head.activeTime):
			c.fail("the segment in slot %d breaks a rule of its row", slot)
			return
		}
		row.Referenced, row.Extents = 0, 0
		x.s.setSegment(slot, row)
	}
}

// sound tells whether the row is one that commands can have made until a log
// time and an active time.
func (g *Segment) sound(now stream.Time, active int64) bool {
	if g.Doomed != 0 && (!g.Dead() || g.Doomed > max(active, 1)) {
		return false
	}
	if g.Level == 0 && (g.Oldest != g.Time || g.Newest != g.Time || g.First != 0 || g.Last != 0) {
		return false
	}
	return g.Epoch != 0 && g.Oldest <= g.Newest && g.Newest <= g.Time && g.Time <= now && g.First <= g.Last
}

func (x *restorer) readStreams(c *codec) {
	var previous stream.ID
	var rows []rowCopy
	list(c, leastStream, &rows, func(c *codec, r *rowCopy) {
		r.code(c, &previous)
		if c.err == nil {
			x.install(c, r)
		}
	})
}

// install puts a stream into the state after it has been checked.
func (x *restorer) install(c *codec, r *rowCopy) {
	s := x.s
	switch {
	case r.id <= x.lastID || r.id.Dense() > s.lastDense || r.id.Log() != 0:
		c.fail("stream %d comes after stream %d, the last is %d", r.id, x.lastID.Dense(), s.lastDense)
	case !r.sound(s.activeTime):
		c.fail("stream %d breaks a rule of its row", r.id)
	}
	for _, row := range r.extents {
		e := row.from(0)
		if s.segment(e.Segment) == nil || !e.sound() {
			c.fail("stream %d has an extent in segment %d, records %d+%d", r.id, e.Segment, e.Ordinal, e.Count())
		}
	}
	if c.err != nil {
		return
	}
	x.lastID = r.id
	x.names = append(x.names, bound{r.name, r.id})
	p := s.place(r.id)
	r.row.contentType = s.types.acquire(r.contentType)
	s.occupy(p, r.row, r.name, makeExtents(r.extents, r.row.start), nil)
	s.referAll(r.extents, 1)
	x.installSide(c, p, r)
	if c.err == nil {
		s.items += s.hashStream(r.id, p)
	}
}

func (x *restorer) installSide(c *codec, p place, r *rowCopy) {
	if len(r.producers) == 0 && r.row.flags&(flagStreamSeq|flagFork|flagForked|flagRetained) == 0 {
		return
	}
	d := p.makeSide()
	d.streamSeq, d.closer, d.forks, d.fork, d.retention = r.streamSeq, r.closer, r.forks, r.fork, r.retention
	if d.forks > 0 {
		x.forks[r.id] = d.forks
	}
	if d.fork != nil {
		x.adopt(c, r.id, d.fork)
	}
	d.producers = make([]producer, 0, len(r.producers))
	for i := range r.producers {
		producer := r.producers[i].producer
		producer.id = x.s.producers.acquire(r.producers[i].name)
		if _, twice := d.find(producer.id); twice {
			c.fail("stream %d has producer %q twice", r.id, r.producers[i].name)
			return
		}
		d.add(producer)
	}
	x.s.counts.Producers += uint64(len(r.producers))
}

// adopt counts a fork as its parent's, if the parent is still there: it has been
// read before, since numbers grow.
func (x *restorer) adopt(c *codec, id stream.ID, fork *stream.Fork) {
	p, ok := x.s.find(fork.Parent)
	switch {
	case fork.Parent == 0 || fork.Parent >= id:
		c.fail("stream %d is a fork of stream %d, which is not older", id, fork.Parent)
	case ok && x.forks[fork.Parent] == 0:
		c.fail("stream %d is a fork of stream %d, which claims fewer forks than there are", id, fork.Parent)
	case ok && (p.page.names[p.at] != string(fork.From) || fork.End > p.row().tail):
		c.fail("stream %d says that it forked %q at %d; its parent, stream %d, is %q and ends at %d",
			id, fork.From, fork.End, fork.Parent, p.page.names[p.at], p.row().tail)
	case ok:
		x.forks[fork.Parent]--
		fork.From = stream.Name(p.page.names[p.at]) // one copy of the text
	}
}

// sound tells whether the row is one that commands can have made.
func (x *rowCopy) sound(active int64) bool {
	w := &x.row
	switch w.expiry {
	case stream.ExpiresIdle:
		if w.limit < 0 || uint64(w.limit) > stream.MaxTTL || w.touched > active {
			return false
		}
	default:
		if w.touched != 0 {
			return false
		}
	}
	for i := range x.producers {
		p := &x.producers[i].producer
		var back stream.Offset
		for _, distance := range p.back {
			back += stream.Offset(distance)
		}
		if x.producers[i].name == "" || p.known == 0 || uint64(p.known) > p.seq+1 || p.first > w.tail || back > p.first {
			return false
		}
	}
	switch {
	case w.retained() != (x.retention != stream.Retention{}):
		return false
	case w.deleted() && (w.closed() || w.streamSeq() || w.retained() || w.expiry != stream.ExpiresNever || w.start != w.tail || len(x.producers) > 0):
		return false
	case w.isFork() && (x.fork.From == "" || x.fork.End > w.tail || !endsWithin(x.fork)):
		return false
	}
	return x.name != "" && w.live() && w.start <= w.tail && (x.closer == 0 || w.closed()) && w.forked() == (x.forks > 0)
}

// endsWithin tells whether a fork ends where its sub-offset can have led: at the
// fork offset without one, else above it by as many messages or by one record.
func endsWithin(f *stream.Fork) bool {
	beyond := uint64(f.End - f.At)
	return f.At <= f.End && (beyond == f.Sub || (beyond == 1 && f.Sub > 0))
}

// sound tells whether the extent is one that commands can have made.
func (e Extent) sound() bool {
	if e.Cut() && (e.Count() != 1 || e.Bytes == 0) {
		return false
	}
	return e.Count() > 0 && uint64(e.Ordinal)+uint64(e.Count()) <= maxCount
}

// finish checks what only the whole can show.
func (x *restorer) finish() error {
	s := x.s
	if s.counts.Slots != x.head.slots {
		return fmt.Errorf("%d slots where %d were announced", s.counts.Slots, x.head.slots)
	}
	if last := len(x.recorded) - 1; last >= 0 && x.recorded[last] == (Segment{}) {
		return fmt.Errorf("the last slot, %d, is empty", last)
	}
	for slot := range x.recorded {
		if got, _ := s.View().Segment(uint32(slot)); got != x.recorded[slot] {
			return fmt.Errorf("segment %d says it has %d bytes in %d extents, the streams have %d in %d", slot,
				x.recorded[slot].Referenced, x.recorded[slot].Extents, got.Referenced, got.Extents)
		}
	}
	for id, missing := range x.forks {
		if missing > 0 {
			return fmt.Errorf("stream %d claims %d more live forks than there are", id, missing)
		}
	}
	if err := x.bindNames(); err != nil {
		return err
	}
	if got := s.Digest(); got != x.head.digest {
		return fmt.Errorf("the digest of what was read is %016x, the snapshot says %016x", uint64(got), uint64(x.head.digest))
	}
	s.publish()
	return nil
}

// bindNames fills the tree in byte order, which is the fastest way and shows
// names that occur twice.
func (x *restorer) bindNames() error {
	byName := func(a, b bound) int { return cmp.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(x.names, byName) {
		slices.SortFunc(x.names, byName)
	}
	for i, b := range x.names {
		if i > 0 && x.names[i-1].name == b.name {
			return fmt.Errorf("streams %d and %d have one name, %q", x.names[i-1].id, b.id, b.name)
		}
		x.s.names.tree.Load(b.name, b.id)
	}
	return nil
}
