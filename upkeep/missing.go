package upkeep

import (
	"context"
	"fmt"

	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/statemachine"
)

const (
	// lookUps is how many segments that were not listed one step asks for.
	lookUps = 64
	// tellOf is how many missing or damaged objects a pass names in the log.
	tellOf = 20
)

// lookForMissing looks at segments that the listing did not have. A listing may
// miss what is there, and the log may have changed since, so neither alone says
// that something is missing.
func (j *orphans) lookForMissing(ctx context.Context) (more bool, err error) {
	for asked := 0; j.at < len(j.pass.known); j.at++ {
		k := &j.pass.known[j.at]
		s, ok := j.needed(k)
		if k.seen || !ok || s.Dead() {
			continue
		}
		if asked == lookUps {
			return true, nil
		}
		asked++
		if err := j.ask(ctx, k, j.key(&s)); err != nil {
			j.at++ // it must not hold up the rest; the next pass asks again
			return false, err
		}
	}
	return false, nil
}

// ask asks the bucket for a segment's object, and then the log whether it was to
// be there at that time: one that was deleted had been doomed before.
func (j *orphans) ask(ctx context.Context, k *knownSegment, key string) error {
	_, err := j.cfg.Bucket.Attributes(ctx, key)
	switch {
	case err == nil:
		return nil
	case gcerrors.Code(err) != gcerrors.NotFound:
		return fmt.Errorf("ask for %s, which the listing did not have: %w", key, err)
	}
	if err := j.cfg.Replica.Sync(ctx); err != nil {
		return err
	}
	if s, ok := j.needed(k); ok {
		j.found.Missing++
		j.tell("an object is missing that streams refer to", key, "bytes", s.Size)
	}
	return nil
}

// checkSize compares a listed object with what the log says of it.
func (j *orphans) checkSize(k *knownSegment, o *blobwal.Listed) {
	if s, ok := j.needed(k); ok && s.Size != o.Size {
		j.found.Damaged++
		j.tell("an object does not have the size that it was written with", o.Key, "bytes", o.Size, "written", s.Size)
	}
}

// needed is the row of a segment that must have an object.
func (j *orphans) needed(k *knownSegment) (statemachine.Segment, bool) {
	s, ok := j.cfg.Replica.View().Segment(k.slot)
	return s, ok && s.Doomed == 0 && s.Node == k.node && s.Epoch == k.epoch && s.Sequence == k.sequence
}

func (j *orphans) tell(what, key string, more ...any) {
	if j.found.Missing+j.found.Damaged <= tellOf {
		j.cfg.Logger.Error(what, append([]any{"key", key}, more...)...)
	}
}
