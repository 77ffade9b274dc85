package crash

import (
	"fmt"
	"math/rand/v2"

	"github.com/picomq/picomq/stream"
)

// lifecycle is the source of a writer that takes one stream after another from
// its create to its close: a create with records, appends, a close with or
// without a final append, and an append that comes too late.
type lifecycle struct {
	prefix string // of its streams' names
	writer int
	batch  bool          // a create may have several records
	add    func(*ledger) // tells the round of a new stream
	types  []string      // content types to choose from
	random *rand.Rand

	streams int
	request int
	seq     uint64
	steps   []*write // of the current stream, not sent yet
}

func (l *lifecycle) next() *write {
	if len(l.steps) == 0 {
		l.plan()
	}
	w := l.steps[0]
	l.steps = l.steps[1:]
	return w.stream.begin(w)
}

func (*lifecycle) learn(*write, answer) {}

// plan draws the life of the next stream.
func (l *lifecycle) plan() {
	contentType := l.types[l.random.IntN(len(l.types))]
	name := stream.Name(fmt.Sprintf("%s/%d-%d", l.prefix, l.writer, l.streams))
	s := newLedger(name, contentType)
	l.streams, l.seq = l.streams+1, 0
	l.add(s)

	create := l.step(s, 1, false)
	create.creates = true
	if l.batch {
		create.count = 1 + l.random.IntN(mostRecords)
	}
	if l.random.IntN(5) == 0 {
		create.closes = true
	} else {
		for range l.random.IntN(4) {
			l.step(s, 1, true)
		}
		l.step(s, l.random.IntN(2), l.random.IntN(2) == 0).closes = true
	}
	l.step(s, 1, false) // too late, if the close was not lost
}

// step plans a request: with a producer, or sent once.
func (l *lifecycle) step(s *ledger, count int, producer bool) *write {
	w := &write{stream: s, writer: l.writer, request: l.request, count: count}
	l.request++
	if producer {
		w.producer = &stream.Producer{ID: fmt.Sprintf("writer-%d", l.writer), Seq: l.seq}
		l.seq++
	}
	l.steps = append(l.steps, w)
	return w
}
