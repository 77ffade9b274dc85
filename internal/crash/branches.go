package crash

import (
	"fmt"
	"math/rand/v2"

	"github.com/picomq/picomq/stream"
)

// branches is the source of a writer that forks what it writes to, and its forks
// again: a chain from a root that is shared, or a stream of its own. On the way
// it appends to both sides, deletes parents while their forks live, and in the
// end deletes some of what is left, in any order.
type branches struct {
	prefix      string // of its streams' names
	writer      int
	contentType string
	root        *ledger // shared with other writers; nil for one of its own
	batch       bool    // a request may have several records
	subs        bool    // the protocol has sub-offsets
	add         func(*ledger)
	random      *rand.Rand

	streams int
	request int
	seqs    map[*ledger]uint64 // of the producer, next
	last    *write             // the last append whose place is known
	chain   []*ledger          // from the root, each a fork of the one before
	steps   []func() *write    // not drawn yet: they depend on the answers to those before
}

// deepest bounds a chain, in forks.
const deepest = 3

func (b *branches) next() *write {
	if len(b.steps) == 0 {
		b.plan()
	}
	w := b.steps[0]()
	b.steps = b.steps[1:]
	return w.stream.begin(w)
}

func (b *branches) learn(w *write, _ answer) {
	if w.fate != acknowledged {
		return
	}
	if w.producer != nil {
		b.seqs[w.stream] = w.producer.Seq + 1
	}
	if w.count > 0 && !w.startUnknown {
		b.last = w
	}
}

// plan draws the next chain.
func (b *branches) plan() {
	depth := 1 + b.random.IntN(deepest)
	kept := map[int]bool{} // levels that are there and may be deleted
	if b.root != nil {
		b.chain, b.seqs = []*ledger{b.root}, map[*ledger]uint64{b.root: b.seqs[b.root]}
	} else {
		b.chain, b.seqs, kept[0] = nil, map[*ledger]uint64{}, true
		b.then(b.create)
	}
	b.grow(0, 1)
	for level := range depth {
		b.branch(level, kept)
	}
	if b.random.IntN(3) == 0 {
		b.then(func() *write { return b.close(depth) })
	}
	for _, level := range b.random.Perm(depth + 1) {
		if kept[level] && b.random.IntN(2) == 0 {
			b.then(func() *write { return b.write(&write{stream: b.chain[level], deletes: true}) })
		}
	}
}

func (b *branches) then(step func() *write) { b.steps = append(b.steps, step) }

// branch plans the fork of a level, what happens to that one next, and appends
// to the fork.
func (b *branches) branch(level int, kept map[int]bool) {
	b.then(func() *write { return b.fork(level) })
	kept[level+1] = true
	switch {
	case kept[level] && b.random.IntN(3) == 0:
		kept[level] = false
		b.then(func() *write { return b.write(&write{stream: b.chain[level], deletes: true}) })
		b.then(func() *write { return b.write(&write{stream: b.chain[level], count: 1}) }) // too late
		b.then(func() *write { return b.created(level + 1) })
	case b.random.IntN(2) == 0:
		b.grow(level, 1) // which the fork must not see
	}
	b.grow(level+1, 1+b.random.IntN(4))
}

// grow plans appends with a producer, who is the same in all streams.
func (b *branches) grow(level, appends int) {
	for range appends {
		b.then(func() *write { return b.produce(&write{stream: b.chain[level], count: b.count()}) })
	}
}

func (b *branches) create() *write {
	s := newLedger(b.name(), b.contentType)
	b.extend(s)
	return b.write(&write{stream: s, creates: true, count: b.random.IntN(2)}) // more would hide the type
}

// fork forks a level, sometimes with first records, rarely closed.
func (b *branches) fork(level int) *write {
	s := newFork(b.name(), b.drawFork(b.chain[level]))
	b.extend(s)
	return b.write(&write{stream: s, creates: true, count: b.random.IntN(2) * b.count(), closes: b.random.IntN(10) == 0})
}

// created repeats the create of a level: it was answered, so whatever has become
// of its parent it is answered again.
func (b *branches) created(level int) *write {
	return b.chain[level].any(func(w *write) bool { return w.creates })
}

func (b *branches) close(level int) *write {
	return b.produce(&write{stream: b.chain[level], closes: true, count: 1})
}

// drawFork draws where to fork a stream: at its tail, at an offset, or beyond
// one, which may be inside a record.
func (b *branches) drawFork(parent *ledger) *fork {
	f := &fork{parent: parent}
	tail := parent.heard()
	at := stream.Offset(b.random.Uint64N(uint64(tail) + 1))
	switch kind := b.random.IntN(4); {
	case kind == 0:
		f.at, f.end, f.known = &at, at, true
	case kind == 1 || !b.subs:
	case stream.IsJSON(b.contentType):
		f.sub = b.random.Uint64N(uint64(tail-at) + 1)
		f.at, f.end, f.known = &at, at+stream.Offset(f.sub), true
	case b.last != nil && b.last.stream == parent:
		b.drawCut(f)
	}
	return f
}

// drawCut ends a fork within or after a record of the writer's own, which it
// knows to be there.
func (b *branches) drawCut(f *fork) {
	id := recordID{Writer: b.writer, Request: b.last.request, Index: b.random.IntN(b.last.count)}
	at := b.last.start + offset(id.Index)
	length := len(encodeBody(id, b.last.count))
	bytes := 1 + b.random.IntN(length)
	f.at, f.sub, f.end, f.known = &at, uint64(bytes), at+1, true
	if bytes < length {
		f.cut = &cut{id: id, of: b.last.count, bytes: bytes}
	}
}

func (b *branches) name() stream.Name {
	b.streams++
	return stream.Name(fmt.Sprintf("%s/%d-%d", b.prefix, b.writer, b.streams))
}

func (b *branches) extend(s *ledger) {
	b.chain = append(b.chain, s)
	b.add(s)
}

// count draws how many records a request has.
func (b *branches) count() int {
	if b.batch && b.random.IntN(3) == 0 {
		return 1 + b.random.IntN(mostRecords)
	}
	return 1
}

func (b *branches) produce(w *write) *write {
	w.producer = &stream.Producer{ID: fmt.Sprintf("writer-%d", b.writer), Seq: b.seqs[w.stream]}
	return b.write(w)
}

func (b *branches) write(w *write) *write {
	w.writer, w.request = b.writer, b.request
	b.request++
	return w
}
