package chaos

import (
	"math"

	"github.com/anishathalye/porcupine"
)

// ending is how a stream that is never deleted was in the end.
type ending struct {
	content []uint64
	closed  bool
}

// resolve says of calls without an answer what the end of the stream tells about
// them. That is no guess, since no two records are alike, and it leaves nothing to
// try: what may or may not have happened doubles the work of a check.
//
//   - An append whose records are not there never happened, or after the end, which
//     is the same to every other call. So does a close of a stream that is open.
//   - One whose records are there happened, where they are. If it was tried again,
//     one of the tries did it: they become one call, which began with the first. If
//     the answer of one says that it did it, the others did nothing.
//   - Creates of what is there do nothing: one of them is left.
func (h *history) resolve(end ending) []porcupine.Operation {
	place := make(map[uint64]uint64, len(end.content))
	for i, id := range end.content {
		place[id] = uint64(i)
	}
	did := map[uint64]bool{} // by the first record of a request; 0 stands for the create
	for _, c := range h.calls {
		if in, out := c.Input.(*input), c.Output.(*output); out.verdict == done && (in.kind == creating || in.count > 0) {
			did[in.id] = true
		}
	}
	kept := make([]porcupine.Operation, 0, len(h.calls))
	open := map[uint64]int{} // by the same: where in kept its one call is
	for _, c := range h.calls {
		in, out := c.Input.(*input), c.Output.(*output)
		first, there := place[in.id]
		switch {
		case out.verdict != unknown:
		case in.kind == appending && in.count == 0:
			if !end.closed {
				continue
			}
		case did[in.id], in.kind == appending && !there:
			continue
		default:
			if at, again := open[in.id]; again {
				kept[at].Call = min(kept[at].Call, c.Call)
				continue
			}
			open[in.id] = len(kept)
			if in.kind == appending {
				c.Output = &output{verdict: done, first: first, firstKnown: true}
				c.Return = math.MaxInt64
			}
		}
		kept = append(kept, c)
	}
	return kept
}
