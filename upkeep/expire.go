package upkeep

import (
	"context"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// sweepRows is how many streams one pass of a sweep looks at.
const sweepRows = 1 << 16

// expire makes time pass in the log while anything waits for it, and removes the
// streams that are past their deadline. A pass looks at [sweepRows] streams and
// goes on where the one before stopped.
type expire struct {
	*Upkeep
	cursor stream.ID
	ticked time.Time
}

// backlog is the streams that can expire, and what else waits for time to pass.
func (j *expire) backlog() uint64 {
	counts := j.cfg.Replica.View().Counts()
	n := counts.Expiring + counts.Dead
	if j.cfg.Retention.Age > 0 || counts.Retained > 0 {
		n++
	}
	return n
}

func (j *expire) step(ctx context.Context, now time.Time) (more bool, err error) {
	if now.Sub(j.ticked) >= TickEvery {
		if _, err := j.cfg.Replica.Propose(ctx, &commands.Tick{}); err != nil {
			return false, err
		}
		j.ticked = now
	}
	ids, next := j.cfg.Replica.View().Due(j.cursor, sweepRows)
	for len(ids) > 0 {
		n := min(len(ids), commands.MaxIDs)
		if _, err := j.cfg.Replica.Propose(ctx, &commands.Expire{IDs: ids[:n:n]}); err != nil {
			return false, err
		}
		ids = ids[n:]
	}
	j.cursor = next
	return false, nil
}
