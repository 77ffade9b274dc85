package replica

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// ErrDeparted refuses commands that are bound to an epoch (see
// [Replica.EnqueueAs]) which is over: this node was taken for gone, or is about to
// register anew. They were not applied and never will be.
var ErrDeparted error = stream.Errorf(stream.CodeUnavailable,
	"this node was taken for gone and registers anew; nothing was written, try again")

// Start is one process start of a node, or one return after it was gone.
type Start struct {
	Node        commands.NodeID
	Epoch       commands.Epoch
	Incarnation commands.Incarnation
}

// bound tells whether a command means something under one epoch only: it names a
// segment by a sequence.
func bound(c commands.Command) bool {
	switch c.(type) {
	case *commands.CommitSegment, *commands.Pack, *commands.Swap:
		return true
	default:
		return false
	}
}

// EnqueueAs is Enqueue for commands that must not be proposed under any epoch but
// this: those that name segments of its. Later they are refused with [ErrDeparted].
// Enqueue and Propose take the epoch of Register for such commands.
func (r *Replica) EnqueueAs(epoch commands.Epoch, cmds []commands.Command, done Done) error {
	it := r.newItem(cmds, done)
	it.epoch = epoch
	return r.queue.add(it)
}

// ProposeAs is Propose, likewise.
func (r *Replica) ProposeAs(ctx context.Context, epoch commands.Epoch, cmds ...commands.Command) (Decision, error) {
	return r.propose(ctx, nil, cmds, epoch)
}

// Depart says in the log that this node ends, so that nobody waits for it. Nothing
// may be proposed after it; Close comes next.
func (r *Replica) Depart(ctx context.Context) error {
	r.leaving.Store(true)
	node, epoch := r.Node()
	if _, gone := r.standing(node); gone {
		return nil
	}
	_, err := r.Propose(ctx, &commands.Depart{Node: node, Epoch: epoch})
	return err
}

// standing is the epoch that the state has for a number, and whether it is gone.
func (r *Replica) standing(node commands.NodeID) (commands.Epoch, bool) {
	for _, n := range r.view.Nodes() {
		if n.Node == node {
			return n.Epoch, n.Gone
		}
	}
	return 0, false
}

// follow notes what an entry says about this node: that it is gone, or that another
// process registered its number. In the second case the rows after that are still
// applied before the replica ends: the one in flight may be among them, and its
// proposers then learn that it was refused.
func (r *Replica) follow(entry *commands.Entry, outcome *statemachine.Outcome) {
	if r.epoch == 0 || r.fenced != nil {
		return
	}
	for i := range entry.Proposals {
		for j, result := range outcome.Proposals[i].Results {
			if result.Verdict != statemachine.Accepted {
				continue
			}
			switch c := entry.Proposals[i].Commands[j].(type) {
			case *commands.Depart:
				r.departed = r.departed || (c.Node == r.self.Node && c.Epoch == r.epoch)
			case *commands.RegisterNode:
				if result.Node == r.self.Node && result.Epoch == commands.Epoch(entry.Index) {
					r.overtaken(c, entry.Index)
				}
			}
		}
	}
}

// overtaken judges a registration that took this node's number. Once this node is
// gone the number is anybody's, and this node will be given another, unless the
// newcomer means to be this node: it was told to have its number, or was started
// with what this one remembers in --data.
func (r *Replica) overtaken(by *commands.RegisterNode, at commands.Index) {
	if by.Incarnation == r.self.Incarnation || by.Incarnation == r.joining {
		return
	}
	successor := by.Node == r.self.Node && (by.Previous == commands.Incarnation{} || by.Previous == r.self.Incarnation)
	if r.departed && !successor {
		return
	}
	r.fenced = fatalf("another process (incarnation %s, address %q) registered as node %d at row %d: this one is fenced and stops; "+
		"give each process its own --data or --node-id", by.Incarnation, by.Address, r.self.Node, at)
}

// bounce takes back what Apply refused because this node was gone. What is bound to
// the epoch goes back to its proposer; the rest waits for the next one, in front.
func (r *Replica) bounce(items []*item) {
	var again []*item
	for _, it := range items {
		if it.epoch != 0 {
			it.done(Decision{}, ErrDeparted)
		} else {
			again = append(again, it)
		}
	}
	if err := r.queue.putBack(again); err != nil {
		answerAll(again, err)
	}
}

// timely is those of the items that may be proposed under the epoch in force; the
// others are refused.
func (r *Replica) timely(items []*item) []*item {
	kept := items[:0]
	for _, it := range items {
		if it.epoch != 0 && it.epoch != r.epoch {
			it.done(Decision{}, ErrDeparted)
			continue
		}
		kept = append(kept, it)
	}
	return kept
}

// rejoin registers this node again after it was taken for gone: as another
// incarnation, under its number if nobody else was given it meanwhile. An error
// leaves it gone; the loop tries again.
func (r *Replica) rejoin(ctx context.Context) error {
	if r.leaving.Load() {
		r.fail(errClosed)
		return nil
	}
	if err := r.tail(ctx); err != nil { // another process may be this node by now
		return err
	}
	r.cfg.Logger.Warn("this node was taken for gone, because it was not heard of for long; it registers anew", "gone", r.self.Node, "epoch", r.epoch)
	next := r.self
	next.Previous = r.self.Incarnation
	_, _ = rand.Read(next.Incarnation[:]) // never fails
	r.joining = next.Incarnation
	result, err := r.announce(ctx, next)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.self.Node, r.self.Incarnation, r.self.Previous = result.Node, next.Incarnation, next.Previous
	r.epoch, r.seq, r.departed = result.Epoch, 0, false
	r.mu.Unlock()
	switch epoch, gone := r.standing(r.self.Node); {
	case epoch != r.epoch: // already, in the rows after ours
		return fatalf("another process registered as node %d while this one did: give each process its own --data or --node-id", r.self.Node)
	case gone:
		r.departed = true
	}
	r.stats.rejoins.Add(1)
	r.cfg.Rejoined(Start{Node: r.self.Node, Epoch: r.epoch, Incarnation: r.self.Incarnation})
	r.queue.signal()
	return nil
}

// announce registers a start. Refusals of the log end the replica.
func (r *Replica) announce(ctx context.Context, self commands.RegisterNode) (result statemachine.Result, err error) {
	var failure error
	register := &item{
		commands: []commands.Command{&self},
		done: func(d Decision, err error) {
			if failure = err; err == nil {
				result = d.Results[0]
			}
		},
	}
	err = r.commit(ctx, commands.RegistrationOrigin(self.Incarnation), []*item{register})
	if err = errors.Join(err, failure); err != nil {
		return result, fmt.Errorf("register in the log: %w", err)
	}
	if err := registrationError(result.Verdict, &self, r.view); err != nil {
		return result, &fatalError{err}
	}
	return result, nil
}

// putBack puts items in front of those that wait.
func (q *queue) putBack(items []*item) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return q.closed
	}
	q.items = append(items[:len(items):len(items)], q.items...)
	for _, it := range items {
		q.bytes += it.bytes
	}
	if len(q.items) > 0 {
		q.signal()
	}
	return nil
}
