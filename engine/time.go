package engine

import (
	"context"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// firstAt is the first offset whose record carries t or a later time, the tail
// when there is none. Times never fall from record to record, so it halves the
// stream until it knows. Whole segments are decided by what the state says of
// their records' times; only inside packed ones, which mix times, blocks are read.
func (e *Engine) firstAt(ctx context.Context, st *statemachine.Stream, t stream.Time) (stream.Offset, error) {
	low, high := st.Start, st.Tail // the answer is in [low, high]
	var gone statemachine.Located
	for low < high {
		at := low + (high-low)/2
		extents := e.replica.View().Extents(st.ID, at, 1)
		if len(extents) == 0 || extents[0].First > at {
			return 0, e.movedAway(st, at)
		}
		x := &extents[0]
		switch {
		case x.In.Newest < t:
			low = x.End()
		case x.In.Oldest >= t:
			high = max(low, x.First)
		default:
			block, err := e.block(ctx, st, x, at, 0)
			switch {
			case blobwal.Missing(err) && !sameSegment(x.In, gone.In):
				gone = *x // compacted meanwhile
			case err != nil:
				return 0, err
			case block.TimeOf(x.Ordinal+uint32(at-x.First)) < t:
				low = at + 1
			default:
				high = at
			}
		}
	}
	return min(low, st.Tail), nil
}
