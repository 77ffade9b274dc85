package chaos

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// kind is a kind of call.
type kind uint8

const (
	creating  kind = iota // PUT of an empty stream
	deleting              // DELETE
	appending             // POST: records, a close, or both
	reading               // GET of the whole stream
)

func (k kind) String() string { return [...]string{"create", "delete", "append", "read"}[k] }

// verdict is what the answer to a call said.
type verdict uint8

const (
	unknown    verdict = iota // no answer, or one that leaves it open
	done                      // done by this call
	existed                   // there already: of a create, or of an append with a producer
	mismatched                // refused: the tail is another
	outrun                    // refused: Stream-Seq does not grow
	closed                    // refused: the stream is closed
	missing                   // refused: there is no such stream
	conflicted                // refused: there is a stream, and it is closed: of a create
)

func (v verdict) String() string {
	return [...]string{"unknown", "done", "existed", "mismatched", "outrun", "closed", "missing", "conflicted"}[v]
}

// most writers with a producer that one stream has.
const mostProducers = 3

// input is what a call asks for.
type input struct {
	kind     kind
	id       uint64 // of the first record, the next have the next
	count    uint64 // of records
	closes   bool
	match    *uint64 // the tail that is required
	seq      string  // Stream-Seq; empty: none
	producer int     // 1 to mostProducers; 0: none
	number   uint64  // of the producer, from 0
}

// output is what the answer told.
type output struct {
	verdict    verdict
	first      uint64 // offset of the first record, if firstKnown
	firstKnown bool
	tail       uint64 // if tailKnown
	tailKnown  bool
	content    uint64 // of a read: all records, folded
	closed     bool   // of a read
}

// state is a stream as a model has it: obvious, and small enough to compare.
type state struct {
	exists, closed bool
	tail           uint64
	content        uint64 // all records in order, folded
	seq            string
	producers      [mostProducers]progress
}

// progress is what a stream knows of a producer.
type progress struct {
	next  uint64 // number that it accepts
	first uint64 // offset that it gave the last one
}

// fold adds a record to a digest of content.
func fold(content, id uint64) uint64 {
	content = (content ^ id) * 0x9E3779B97F4A7C15
	return content ^ content>>29
}

// model says which histories of one stream are right.
var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, out any) (bool, any) {
		ok, next := s.(state).step(in.(*input), out.(*output))
		return ok, next
	},
	DescribeOperation: func(in, out any) string { return describe(in.(*input), out.(*output)) },
}

// step tells whether a call may have that answer in this state, and what the
// state is then.
func (s state) step(in *input, out *output) (bool, state) {
	switch in.kind {
	case creating:
		return s.create(out)
	case deleting:
		if out.verdict == unknown || (out.verdict == done) == s.exists {
			return true, state{}
		}
		return false, s
	case reading:
		return s.read(out), s
	default:
		return s.add(in, out)
	}
}

func (s state) create(out *output) (bool, state) {
	want, next := done, state{exists: true}
	switch {
	case s.exists && s.closed:
		want, next = conflicted, s
	case s.exists:
		want, next = existed, s
	}
	return out.verdict == want || out.verdict == unknown, next
}

func (s state) read(out *output) bool {
	if !s.exists {
		return out.verdict == missing
	}
	return out.verdict == done && out.tail == s.tail && out.content == s.content && out.closed == s.closed
}

// add is an append. An unknown one does what it would do now.
func (s state) add(in *input, out *output) (bool, state) {
	want, first, next := s.judge(in)
	switch {
	case out.verdict == unknown:
		return true, next
	case out.verdict != want,
		out.firstKnown && out.first != first,
		out.tailKnown && want != existed && out.tail != next.tail,
		out.tailKnown && want == existed && out.tail > next.tail: // any tail since
		return false, s
	}
	return true, next
}

// judge decides about an append, in the order that the protocols prescribe.
func (s state) judge(in *input) (want verdict, first uint64, next state) {
	if !s.exists {
		return missing, 0, s
	}
	if in.producer != 0 {
		if p := s.producers[in.producer-1]; in.number < p.next {
			return existed, p.first, s
		}
	}
	switch {
	case s.closed && (in.count > 0 || in.producer != 0):
		return closed, 0, s
	case in.match != nil && *in.match != s.tail:
		return mismatched, 0, s
	case in.seq != "" && in.seq <= s.seq:
		return outrun, 0, s
	}
	return done, s.tail, s.apply(in)
}

func (s state) apply(in *input) state {
	first := s.tail
	for i := range in.count {
		s.content = fold(s.content, in.id+i)
	}
	s.tail += in.count
	s.closed = s.closed || in.closes
	if in.seq != "" {
		s.seq = in.seq
	}
	if in.producer != 0 {
		s.producers[in.producer-1] = progress{next: in.number + 1, first: first}
	}
	return s
}

func describe(in *input, out *output) string {
	text := in.kind.String()
	if in.kind == appending {
		text = fmt.Sprintf("append %d of %d", in.id, in.count)
		if in.producer != 0 {
			text += fmt.Sprintf(" producer %d/%d", in.producer, in.number)
		}
		if in.match != nil {
			text += fmt.Sprintf(" match %d", *in.match)
		}
		if in.seq != "" {
			text += " seq " + in.seq
		}
		if in.closes {
			text += " close"
		}
	}
	text += " -> " + out.verdict.String()
	if out.firstKnown {
		text += fmt.Sprintf(" first %d", out.first)
	}
	if out.tailKnown {
		text += fmt.Sprintf(" tail %d", out.tail)
	}
	return text
}
