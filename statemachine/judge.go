package statemachine

import (
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// judge decides about an append or a close of a stream that is there, and
// changes nothing but the answer. The order of the checks is part of the
// protocols: a retry must be recognised before anything that has changed since
// can refuse it.
func (s *State) judge(r *row, d *side, a *commands.Append, out *AppendResult) Verdict {
	var p *producer
	if a.HasProducer {
		p = s.known(d, a.Producer.ID)
		if verdict := judgeRetry(p, &a.Producer, out); verdict != Accepted {
			return verdict
		}
	}
	if r.closed() {
		return Closed
	}
	if a.HasProducer {
		if verdict := judgeSequence(p, &a.Producer, out); verdict != Accepted {
			return verdict
		}
	}
	switch {
	case a.HasMatch && a.Match != r.tail:
		return MatchFailed
	case a.HasStreamSeq && r.streamSeq() && string(a.StreamSeq) <= d.streamSeq:
		return StreamSeq
	case stream.MaxOffset-r.tail < stream.Offset(a.Records):
		return Full
	}
	return Accepted
}

// judgeRetry recognises requests that were accepted before and those of an
// epoch that is over.
func judgeRetry(p *producer, request *stream.Producer, out *AppendResult) Verdict {
	switch {
	case p == nil || request.Epoch > p.epoch:
		return Accepted
	case request.Epoch < p.epoch:
		out.ProducerEpoch, out.ProducerSeq = p.epoch, p.seq
		return FencedProducer
	case request.Seq <= p.seq:
		out.ProducerEpoch, out.ProducerSeq = p.epoch, p.seq
		out.First, out.FirstKnown = p.firstOf(request.Seq)
		return Duplicate
	default:
		return Accepted
	}
}

// judgeSequence asks that requests of an epoch come one by one from 0.
func judgeSequence(p *producer, request *stream.Producer, out *AppendResult) Verdict {
	switch {
	case p == nil && request.Seq != 0:
		out.ProducerEpoch, out.ExpectedSeq = request.Epoch, 0
		return SequenceGap
	case p == nil:
		return Accepted
	case request.Epoch > p.epoch && request.Seq != 0:
		out.ProducerEpoch, out.ProducerSeq = p.epoch, p.seq
		return EpochStart
	case request.Epoch == p.epoch && request.Seq != p.seq+1:
		out.ProducerEpoch, out.ProducerSeq, out.ExpectedSeq = p.epoch, p.seq, p.seq+1
		return SequenceGap
	default:
		return Accepted
	}
}

// validRequest checks the ranges that the state relies on.
func validRequest(a *commands.Append) bool {
	if a.HasProducer {
		p := &a.Producer
		if p.ID == "" || len(p.ID) > stream.MaxProducerID || p.Epoch > stream.MaxProducerNumber || p.Seq > stream.MaxProducerNumber {
			return false
		}
	}
	return len(a.StreamSeq) <= stream.MaxStreamSeq
}
