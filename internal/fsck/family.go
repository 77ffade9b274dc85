package fsck

import (
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// owns tells whether a block can hold the record of a stream at an offset. The
// block says whose it is by a number, or by the name that the stream was created
// with; a name that is not known (by who reads the index only) is empty.
//
// What appends wrote is the stream's own, or below a fork's end its parent's, and
// so on. What compaction wrote lies under the oldest of the streams that shared it
// then, which may be a relative that is no ancestor.
func (c *checker) owns(st *statemachine.Stream, at stream.Offset, owner stream.ID, name stream.Name, packed bool) bool {
	if packed {
		return owner == st.ID || (owner != 0 && owner < st.ID && inherits(st, at))
	}
	for depth := 0; ; depth++ {
		if isNamed(st.ID, st.Name, owner, name) {
			return true
		}
		if !inherits(st, at) {
			return false
		}
		parent, ok := c.view.Stream(st.Fork.Parent)
		if !ok { // gone; who its own parents were is not kept
			return isNamed(st.Fork.Parent, st.Fork.From, owner, name) || owner < st.Fork.Parent
		}
		st = &parent
	}
}

func isNamed(id stream.ID, own stream.Name, owner stream.ID, name stream.Name) bool {
	return owner == id || (owner == 0 && (name == own || name == ""))
}

// inherits tells whether a stream has the record at an offset of its parent.
func inherits(st *statemachine.Stream, at stream.Offset) bool {
	return st.Fork != nil && at < st.Fork.End
}

// mayShare tells whether two streams may have one record, which lies at an offset
// of both: the younger inherited it, and both are of one family, as far as that
// is known.
func (c *checker) mayShare(a, b stream.ID, at stream.Offset) bool {
	younger, ok := c.view.Stream(max(a, b))
	if a == b || !ok || !inherits(&younger, at) {
		return false
	}
	first, whole := c.root(a)
	other, wholeToo := c.root(b)
	return first == other || !whole || !wholeToo
}

// root is the oldest known ancestor of a stream, and whether it is the first of
// its family for certain: one that is gone may have been a fork.
func (c *checker) root(id stream.ID) (oldest stream.ID, certain bool) {
	for {
		st, ok := c.view.Stream(id)
		if !ok || st.Fork == nil {
			return id, ok
		}
		id = st.Fork.Parent
	}
}
