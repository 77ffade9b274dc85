package crash

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/picomq/picomq/stream"
)

// fork is how a stream branched off another.
type fork struct {
	parent *ledger
	at     *stream.Offset // as asked for; nil for the parent's tail
	sub    uint64         // as asked for, beyond at: messages of JSON, else bytes of one record
	cut    *cut           // the record that the inherited part ends in; nil when it ends after one
	floor  stream.Offset  // a tail of the parent that was known before the fork was asked for

	// end is where the inherited part ends: known from the start, but for forks
	// at the tail, which the first answer or check tells.
	end   stream.Offset
	known bool
}

// cut is a record of which a fork has the first bytes.
type cut struct {
	id    recordID
	of    int // records in its request
	bytes int // at least 1, and fewer than the record has
}

func (c *cut) body() []byte { return encodeBody(c.id, c.of)[:c.bytes] }

// newFork is the ledger of a fork, of which the parent is told.
func newFork(name stream.Name, f *fork) *ledger {
	l := newLedger(name, f.parent.contentType)
	l.fork = f
	f.parent.mu.Lock()
	defer f.parent.mu.Unlock()
	f.floor = f.parent.tail
	f.parent.forks = append(f.parent.forks, l)
	return l
}

// base is where a stream's own records begin: 0 for one that is no fork.
func (l *ledger) base() stream.Offset {
	if l.fork == nil {
		return 0
	}
	return l.fork.end
}

// beginAt is told where a stream's own records begin. The text says why they
// cannot begin there.
func (l *ledger) beginAt(base stream.Offset) (problem string) {
	f := l.fork
	switch {
	case f == nil && base == 0:
		return ""
	case f == nil:
		return "created with another tail than the records make"
	case f.known && base != f.end:
		return fmt.Sprintf("the inherited part ends at %d, not at %d", base, f.end)
	case base < f.floor && !f.known:
		return fmt.Sprintf("forked at the tail %d, which had been %d before", base, f.floor)
	}
	f.end, f.known = base, true
	return ""
}

// heldForSure reports whether some fork of a deleted stream was made, and nobody
// asked to delete it.
func (l *ledger) heldForSure() bool {
	return slices.ContainsFunc(l.forks, func(f *ledger) bool {
		made := f.any(func(w *write) bool { return w.creates && w.fate == acknowledged })
		return made != nil && f.deletion() == nil
	})
}

// cutAt is the cut record at an offset, inherited or not; nil where the record
// is whole.
func (l *ledger) cutAt(o stream.Offset) *cut {
	for l.fork != nil && o < l.fork.end {
		if l.fork.cut != nil && o == l.fork.end-1 {
			return l.fork.cut
		}
		l = l.fork.parent
	}
	return nil
}

// decode reads the body at an offset back and checks every byte of it.
func (l *ledger) decode(o stream.Offset, text []byte) (recordID, error) {
	c := l.cutAt(o)
	if c == nil {
		return decodeBody(text)
	}
	if !bytes.Equal(text, c.body()) {
		return recordID{}, fmt.Errorf("%.80q, not the first %d bytes of %v", text, c.bytes, c.id)
	}
	return c.id, nil
}
