package upkeep

import (
	"cmp"
	"context"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

const (
	// retainEvery is how often streams are looked through.
	retainEvery = 10 * time.Second
	// trimBatch is how many streams one proposal trims.
	trimBatch = 1024
	// refineAtOnce is how many streams one step asks the bucket about; the others
	// have their turn in the next pass.
	refineAtOnce = 64
	// maxLooks bounds what is remembered of looks into segments.
	maxLooks = 1 << 16
)

// retain trims streams to what they keep. Log time is the clock. A pass looks at
// [sweepRows] streams a step, and passes over those that did not change and have
// not come of age since the last one.
//
// What the state knows decides about whole extents. About an extent of which a
// part is to go the blocks of its segment do, but only when that can gain more
// than a block: a stream keeps less than a block and one record beyond its
// bounds, and of the millions that have less than a block no object is read.
type retain struct {
	*Upkeep
	scan  *statemachine.RetentionScan
	looks map[stream.ID]look
}

// look is what a look into a segment told about a stream that starts at an
// offset: what a repetition would, until then.
type look struct {
	start  stream.Offset
	until  stream.Time // up to this no further block of it is too old; 0: not known
	excess uint64      // with this no further block of it was too many; 0: not known
}

// backlog is how many streams have to be looked at.
func (j *retain) backlog() uint64 {
	counts := j.cfg.Replica.View().Counts()
	if j.cfg.Retention != (stream.Retention{}) {
		return counts.Streams
	}
	return counts.Retained
}

func (j *retain) step(ctx context.Context, _ time.Time) (again bool, err error) {
	view := j.cfg.Replica.View()
	now := view.LogTime()
	list, more := j.scan.Step(view, sweepRows, now)
	var trims []commands.Command
	var failed error // what one segment does not tell holds up no other stream
	refined := 0
	for i := range list {
		o := &list[i]
		to := o.To
		if q, ok := j.ask(view, o, now); ok && refined < refineAtOnce {
			refined++
			to, err = j.refine(ctx, o, &q)
			switch {
			case err == nil || blobwal.Missing(err):
				// It was collected meanwhile: its records are elsewhere in the next pass.
			case stream.CodeOf(err) == stream.CodeInternal:
				failed = cmp.Or(failed, err) // one object is spoiled
			default:
				failed, refined = cmp.Or(failed, err), refineAtOnce // the bucket is away: enough waiting
			}
		}
		if s, ok := view.Stream(o.ID); ok && to > s.Start {
			trims = append(trims, &commands.Trim{ID: o.ID, To: to, Upkeep: true})
		}
	}
	if err := j.trim(ctx, trims); err != nil {
		return false, err
	}
	return more && failed == nil, failed
}

func (j *retain) trim(ctx context.Context, trims []commands.Command) error {
	for len(trims) > 0 {
		n := min(len(trims), trimBatch)
		if _, err := j.cfg.Replica.Propose(ctx, trims[:n:n]...); err != nil {
			return err
		}
		trims = trims[n:]
	}
	return nil
}

// remember notes what a look told.
func (j *retain) remember(id stream.ID, l look) {
	if j.looks == nil || len(j.looks) >= maxLooks {
		j.looks = make(map[stream.ID]look)
	}
	j.looks[id] = l
}
