package upkeep

import (
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// maxCopies bounds what is remembered of where records of forks and of their
// parents were copied. What is forgotten is copied once more.
const maxCopies = 1 << 16

// copied is where an extent's records were copied to.
type copied struct {
	in      *output
	ordinal uint32
	bytes   uint32
}

// copies remembers where records lie that several streams may have, so that they
// still share them afterwards.
type copies struct {
	bySlot map[uint32][]shared
	size   int
}

type shared struct {
	from statemachine.Extent
	to   copied
}

func (c *copies) add(e *statemachine.Extent, to copied) {
	if c.size == maxCopies {
		return
	}
	if c.bySlot == nil {
		c.bySlot = map[uint32][]shared{}
	}
	c.size++
	c.bySlot[e.Segment] = append(c.bySlot[e.Segment], shared{*e, to})
}

// find is where all records of an extent were copied to, as whole or as cut as it
// has them.
func (c *copies) find(e *statemachine.Extent) (copied, bool) {
	for _, s := range c.bySlot[e.Segment] {
		if s.from.Cut() != e.Cut() || (e.Cut() && s.from.Bytes != e.Bytes) {
			continue
		}
		skip := e.Ordinal - s.from.Ordinal
		if e.Ordinal >= s.from.Ordinal && skip+e.Count() <= s.from.Count() && s.from.First+stream.Offset(skip) == e.First {
			to := s.to
			to.ordinal += skip
			if e.Count() < s.from.Count() {
				// How many bytes they take of it is not known: no more than surely.
				to.bytes = min(to.bytes, statemachine.LeastRecord*e.Count())
			}
			return to, true
		}
	}
	return copied{}, false
}
