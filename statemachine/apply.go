package statemachine

import (
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// Apply changes the state by one entry and says what each of its commands did.
// It is total: it neither fails nor blocks on anything but the short locks of
// readers, and a refusal is part of the outcome. One goroutine at a time may
// apply. The entry must be the one after [State.Index]; the caller checks that,
// and for any other index nothing happens and the outcome is OutOfOrder.
//
// The outcome and what it holds belong to the caller. Nothing of the entry's
// byte columns is kept.
func (s *State) Apply(e *commands.Entry) *Outcome {
	if e.Index != s.index+1 {
		return &Outcome{Index: e.Index, Time: s.logTime, OutOfOrder: true}
	}
	s.endSnapshot()
	s.advance(e)
	s.index = e.Index
	s.changed, s.cascaded = nil, 0
	out := &Outcome{Index: e.Index, Time: s.logTime, Proposals: make([]ProposalOutcome, len(e.Proposals))}
	for i := range e.Proposals {
		out.Proposals[i] = s.applyProposal(&e.Proposals[i])
	}
	out.Changed = s.changed
	s.changed = nil
	s.remember()
	s.publish()
	return out
}

// applyProposal applies a proposal's commands in order, each accepted or
// refused alone, unless its origin has no say or had it already.
func (s *State) applyProposal(p *commands.Proposal) ProposalOutcome {
	if p.Origin.Node == 0 {
		return s.applyRegistration(p)
	}
	n, status := s.admit(p.Origin)
	if status != Applied {
		return ProposalOutcome{Status: status}
	}
	results := make([]Result, len(p.Commands))
	for i, command := range p.Commands {
		if n.Gone {
			results[i].Verdict = Invalid // nothing of a node comes after its own Depart
			continue
		}
		s.applyCommand(n, command, &results[i])
	}
	return ProposalOutcome{Status: Applied, Results: results}
}

// applyCommand is the one place where kinds part. A registration is not among
// them: it has no node yet and stands alone in its proposal.
func (s *State) applyCommand(n *node, command commands.Command, out *Result) {
	switch m := command.(type) {
	case *commands.CommitSegment:
		s.commitSegment(n, m, out)
	case *commands.Create:
		s.create(m, &out.AppendResult)
	case *commands.Close:
		s.closeStream(m, &out.AppendResult)
	case *commands.Trim:
		s.trim(m, &out.AppendResult)
	case *commands.Delete:
		s.delete(m, &out.AppendResult)
	case *commands.Touch:
		s.touchAll(m, out)
	case *commands.Expire:
		s.expire(m, out)
	case *commands.Tick:
		out.Verdict = Accepted
	case *commands.Checkpoint:
		out.Verdict = s.compare(m)
	case *commands.Doom:
		s.doom(m, out)
	case *commands.Collected:
		s.collected(m, out)
	case *commands.Pack:
		s.pack(n, m, out)
	case *commands.Swap:
		s.swap(n, m, out)
	case *commands.Depart:
		out.Verdict = s.depart(m)
	case *commands.Activate:
		out.Verdict = s.activate(m)
	default:
		out.Verdict = s.applyNext(command)
	}
}

// note adds a stream to the outcome's changed ones.
func (s *State) note(id stream.ID) {
	if n := len(s.changed); n == 0 || s.changed[n-1] != id {
		s.changed = append(s.changed, id)
	}
}
