package engine

import (
	"errors"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// sealed is called by the writer, in an order that keeps each stream's, when a
// segment is durable or was abandoned. It proposes the segment's commit.
func (e *Engine) sealed(s *blobwal.Sealed) {
	if s.Err != nil && e.writers.brokenOff() {
		e.keep(s)
		s.Decided()
		return
	}
	e.stored(s.Err)
	if s.Err != nil {
		e.giveUp(s.ID.Epoch, s.ID.Sequence)
		e.finishAll(s, notStored(s.Err))
		s.Decided()
		return
	}
	e.cache.Put(segment(s.ID, s.Size), s.Object)
	e.cfg.AfterPut()
	givenUp := e.takeGivenUp(s.ID.Epoch)
	commit := commands.NewCommitSegment(s.ID.Sequence, s.Size, appendsOf(s), givenUp)
	s.Object = nil
	e.writers.proposes()
	err := e.replica.EnqueueAs(commands.Epoch(s.ID.Epoch), []commands.Command{commit}, func(d replica.Decision, err error) {
		defer e.settle(s)
		if err != nil {
			e.abandoned(s, givenUp, err)
			return
		}
		e.committed(s, d.Time, &d.Results[0])
	})
	if err != nil {
		e.abandoned(s, givenUp, err)
		e.settle(s)
	}
}

// settle says that the log decided a segment's commit, or never will.
func (e *Engine) settle(s *blobwal.Sealed) {
	e.writers.decides()
	s.Decided()
}

// notStored is what clients are told of a segment that was given up. Why is for
// the operator: the writer has logged it, and readiness says it.
func notStored(err error) error {
	if stream.CodeOf(err) != stream.CodeUnavailable {
		return err
	}
	return stream.Errorf(stream.CodeUnavailable, "the bucket did not store the records in time; nothing was written, try again")
}

// appendsOf is the command's view of what a segment holds.
func appendsOf(s *blobwal.Sealed) []commands.Append {
	appends := make([]commands.Append, len(s.Appends))
	for i, a := range s.Appends {
		p := a.Tag.(*pending)
		c := &appends[i]
		*c = commands.Append{ID: a.Stream, Create: p.create, Records: uint32(len(a.Records)), Bytes: s.Bytes[i]}
		if p.req == nil {
			continue
		}
		c.Close = p.req.Close
		if p.req.Producer != nil {
			c.HasProducer, c.Producer = true, *p.req.Producer
		}
		if p.req.Match != nil {
			c.HasMatch, c.Match = true, *p.req.Match
		}
		if p.req.StreamSeq != nil {
			c.HasStreamSeq, c.StreamSeq = true, []byte(*p.req.StreamSeq)
		}
	}
	return appends
}

// committed answers the appends of a segment whose commit was applied.
func (e *Engine) committed(s *blobwal.Sealed, at stream.Time, result *statemachine.Result) {
	if result.Verdict != statemachine.Accepted {
		e.finishAll(s, stream.Errorf(stream.CodeUnavailable, "the log refused segment %d of this node (%v); nothing was written", s.ID.Sequence, result.Verdict))
		return
	}
	e.cfg.AfterCommit()
	for i, a := range s.Appends {
		e.finish(a.Tag.(*pending), outcome{result: result.Appends[i], time: at})
	}
}

// abandoned answers the appends of a segment whose commit failed. When it
// certainly is not in the log its sequence is given up, so that it never can be.
func (e *Engine) abandoned(s *blobwal.Sealed, givenUp []uint64, err error) {
	if errors.Is(err, replica.ErrDeparted) {
		e.keep(s)
		return
	}
	e.giveUp(s.ID.Epoch, givenUp...) // again, which does no harm if the commit did
	if stream.CodeOf(err) != stream.CodeOutcomeUnknown {
		e.giveUp(s.ID.Epoch, s.ID.Sequence)
	}
	e.finishAll(s, err)
}

func (e *Engine) finishAll(s *blobwal.Sealed, err error) {
	for _, a := range s.Appends {
		e.finish(a.Tag.(*pending), outcome{err: err})
	}
}

// segment names a segment for the cache, which knows the cluster and so the key.
func segment(id blobwal.SegmentID, size uint64) blockcache.Segment {
	return blockcache.Segment{ID: id, Size: size}
}
