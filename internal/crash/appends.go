package crash

import (
	"fmt"
	"math/rand/v2"

	"github.com/picomq/picomq/stream"
)

// appendKind says what makes an append safe to repeat, if anything.
type appendKind uint8

const (
	plain       appendKind = iota // nothing: it is sent once
	producing                     // a producer's epoch and sequence
	conditional                   // a condition: Pico-Match-Seq, Stream-Seq
	appendKinds
)

// mostRecords bounds a batch.
const mostRecords = 20

// appends is the source of a writer that shares its stream with others.
type appends struct {
	stream *ledger
	writer int
	kind   appendKind
	batch  bool // appends may have several records
	seqs   bool // the condition is on Stream-Seq, else on the tail
	random *rand.Rand

	request  int
	producer stream.Producer
	tail     stream.Offset // as last heard of
	closed   bool          // somebody closed the stream
}

func (a *appends) next() *write {
	if a.closed {
		return nil
	}
	w := &write{writer: a.writer, request: a.request, count: 1}
	a.request++
	if a.batch && a.random.IntN(3) == 0 {
		w.count = 1 + a.random.IntN(mostRecords)
	}
	switch a.kind {
	case plain:
	case producing:
		if a.random.IntN(50) == 0 {
			a.producer.Epoch, a.producer.Seq = a.producer.Epoch+1, 0
		}
		a.producer.ID = fmt.Sprintf("writer-%d", a.writer)
		p := a.producer
		w.producer = &p
	case conditional:
		if a.seqs {
			w.streamSeq = fmt.Sprintf("%012d", w.request)
			break
		}
		tail := a.tail
		w.match = &tail
	default:
		panic("no such kind of append")
	}
	return a.stream.begin(w)
}

func (a *appends) learn(w *write, got answer) {
	a.tail = max(a.tail, got.next)
	a.closed = a.closed || got.verdict == streamClosed
	if w.producer != nil && w.fate == acknowledged {
		a.producer.Seq = w.producer.Seq + 1
	}
}
