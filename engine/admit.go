package engine

import (
	"context"
	"time"

	"github.com/picomq/picomq/stream"
)

// maxSlow is how long the budget of extents delays an append at most.
const maxSlow = 250 * time.Millisecond

// admit bounds the extents of all streams: the state's memory, which compaction
// gives back. In the last eighth of the budget what adds extents is delayed, the
// longer the less is left, so that compaction can catch up; beyond it, refused.
// extra is what the request adds at once, beside the one of its own records.
func (e *Engine) admit(ctx context.Context, extra uint64) error {
	limit := e.cfg.MaxExtents
	held := e.replica.View().Counts().Extents
	soft := limit - limit/8
	switch {
	case held+extra <= soft:
		return nil
	case held+extra >= limit:
		return stream.Errorf(stream.CodeOverloaded, "the streams lie in %d pieces and the limit is %d: compaction is behind; nothing was written, try again later", held, limit)
	}
	timer := time.NewTimer(time.Duration(float64(maxSlow) * float64(held+extra-soft) / float64(limit-soft)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
