package engine

import (
	"github.com/picomq/picomq/internal/jsontext"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

func closedError(name stream.Name, tail stream.Offset) *stream.Error {
	err := stream.Errorf(stream.CodeClosed, "the stream %q is closed at %d; nothing can be appended", name, tail)
	err.Tail, err.Closed = tail, true
	return err
}

// refusal turns what Apply said into what the client is told. r is nil for a
// create.
func refusal(name stream.Name, r *stream.AppendRequest, res *statemachine.AppendResult) error {
	var err *stream.Error
	switch res.Verdict {
	case statemachine.NotFound:
		return notFound(name)
	case statemachine.Deleted:
		return deleted(name)
	case statemachine.Conflict:
		return conflict(name)
	case statemachine.Closed:
		return closedError(name, res.Tail)
	case statemachine.FencedProducer:
		err = stream.Errorf(stream.CodeFenced, "producer %q of %q is at epoch %d; epoch %d was fenced by it", r.Producer.ID, name, res.ProducerEpoch, r.Producer.Epoch)
		err.Epoch = res.ProducerEpoch
	case statemachine.EpochStart:
		err = stream.Errorf(stream.CodeEpochStart, "producer %q of %q begins epoch %d, which must start at sequence 0, not %d", r.Producer.ID, name, r.Producer.Epoch, r.Producer.Seq)
		err.Epoch = res.ProducerEpoch
	case statemachine.SequenceGap:
		err = stream.Errorf(stream.CodeSequenceGap, "producer %q of %q sent sequence %d where %d follows", r.Producer.ID, name, r.Producer.Seq, res.ExpectedSeq)
		err.Expected, err.Received = res.ExpectedSeq, r.Producer.Seq
	case statemachine.MatchFailed:
		err = stream.Errorf(stream.CodeMatchFailed, "the tail of %q is %d, not %d; read up to it and decide again", name, res.Tail, *r.Match)
		err.Tail = res.Tail
	case statemachine.StreamSeq:
		err = stream.Errorf(stream.CodeStreamSeq, "the stream sequence %q of %q is not above the last accepted one", *r.StreamSeq, name)
		err.Tail = res.Tail
	case statemachine.Full:
		return stream.Errorf(stream.CodeTooLarge, "the stream %q is full: its tail %d cannot grow past %d", name, res.Tail, stream.MaxOffset)
	case statemachine.Invalid:
		return stream.Errorf(stream.CodeBadRequest, "the log refused the request for %q as out of range", name)
	default:
		return stream.Errorf(stream.CodeInternal, "the log decided %v about %q, which is no answer to an append", res.Verdict, name)
	}
	return err
}

// checkJSON refuses records that could not be elements of a JSON array.
func checkJSON(records []stream.Record) error {
	for i := range records {
		if body := records[i].Body; !jsontext.Valid(body, jsontext.StandardDepth) {
			return stream.Errorf(stream.CodeBadRequest, "record %d of the request is not a JSON value in UTF-8; the stream holds application/json", i)
		}
	}
	return nil
}
