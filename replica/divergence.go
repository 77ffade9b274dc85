package replica

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
)

// keptBallots is how many of the last reported indexes are compared: reports that
// come later are of nodes that lag by thousands of rows.
const keptBallots = 8

// inspectionTimeout bounds how long a state in doubt takes to be kept.
const inspectionTimeout = time.Minute

// ballot is what the nodes reported of one index.
type ballot struct {
	at       commands.Index
	own      commands.Digest
	known    bool // own is known: the state was at that index, or compared it
	differs  bool // some report is not own
	reported map[commands.NodeID]commands.Digest
}

// comparison holds reports of digests against each other. Each node reports at
// fixed indexes; the state compares, and here it is decided what follows from a
// difference. It is owned by the loop.
//
// A difference puts the state in doubt: from then on nothing is acknowledged. Of
// the live nodes at most one digest can have more than half. Nodes that have it go
// on, those that do not end; when all have reported and none has it, all end. A
// node that is silent is waited for until it is gone. In the replay of a start the
// state that results is one more voice, so that a cluster of two that ended can
// start again.
type comparison struct {
	ballots []*ballot
	doubt   *ballot        // the oldest difference that is not decided
	agreed  commands.Index // the last at which another node's digest was this one's
	held    []func(error)  // answers that wait for the decision

	doubtful atomic.Bool // doubt is not nil; read by all
}

// of is the ballot of an index.
func (c *comparison) of(at commands.Index) *ballot {
	for _, b := range c.ballots {
		if b.at == at {
			return b
		}
	}
	if len(c.ballots) == keptBallots {
		c.ballots = c.ballots[1:]
	}
	b := &ballot{at: at, reported: make(map[commands.NodeID]commands.Digest)}
	c.ballots = append(c.ballots, b)
	return b
}

// note enters one report.
func (c *comparison) note(node, self commands.NodeID, report *commands.Checkpoint, verdict statemachine.Verdict) {
	if verdict != statemachine.Accepted && verdict != statemachine.Diverged {
		return // too old to be compared, or of no index that is
	}
	b := c.of(report.At)
	b.reported[node] = report.Digest
	if !b.known {
		b.own, b.known = report.Digest, true
		if verdict == statemachine.Diverged {
			b.own = ^report.Digest // something else
		}
	}
	if verdict == statemachine.Diverged {
		b.differs = true
	}
	if b.differs && c.doubt == nil {
		c.doubt = b
		c.doubtful.Store(true)
	}
	if !b.differs && node != self {
		c.agreed = max(c.agreed, report.At)
	}
}

// checkReports enters the reports of an entry and decides what is in doubt. The
// error ends the replica.
func (r *Replica) checkReports(entry *commands.Entry, outcome *statemachine.Outcome) error {
	c := &r.comparison
	if entry.Index%statemachine.CheckpointInterval == 0 {
		b := c.of(entry.Index)
		b.own, b.known = r.state.Digest(), true
	}
	for i := range entry.Proposals {
		for j, command := range entry.Proposals[i].Commands {
			if report, ok := command.(*commands.Checkpoint); ok && j < len(outcome.Proposals[i].Results) {
				c.note(entry.Proposals[i].Origin.Node, r.self.Node, report, outcome.Proposals[i].Results[j].Verdict)
			}
		}
	}
	if c.doubt == nil {
		return nil
	}
	return r.decide(c.doubt)
}

// decide counts the digests of the live nodes.
func (r *Replica) decide(b *ballot) error {
	voices, counted := 0, make(map[commands.Digest]int)
	all := true
	for _, n := range r.view.Nodes() {
		if n.Gone {
			continue
		}
		voices++
		if digest, ok := b.reported[n.Node]; ok {
			counted[digest]++
			continue
		}
		all = false // this node too: the others must learn what it has before it ends
		if n.Node == r.self.Node && n.Epoch == r.epoch && r.epoch != 0 {
			counted[b.own]++
		}
	}
	if r.epoch == 0 { // a replay, by a process that is no node yet
		voices++
		counted[b.own]++
	}
	if own, ok := b.reported[r.self.Node]; ok && own != b.own && r.epoch != 0 {
		return r.diverged(b, "which is not what this node itself reported")
	}
	for digest, n := range counted {
		switch {
		case 2*n <= voices:
		case digest != b.own:
			return r.diverged(b, fmt.Sprintf("and %d of %d have %016x", n, voices, uint64(digest)))
		default:
			r.cfg.Logger.Error("other nodes' states diverged from this one's and the majority's; they end",
				"index", b.at, "digest", fmt.Sprintf("%016x", uint64(digest)), "agree", n, "nodes", voices)
			r.trust(b)
			return nil
		}
	}
	if all {
		return r.diverged(b, fmt.Sprintf("and none of the %d digests has a majority", voices))
	}
	return nil
}

// trust ends the doubt: this node's state is the majority's.
func (r *Replica) trust(b *ballot) {
	c := &r.comparison
	b.differs = false
	c.agreed, c.doubt = max(c.agreed, b.at), nil
	for _, other := range c.ballots {
		if other.differs {
			c.doubt = other
			return // judged with the next entry
		}
	}
	c.doubtful.Store(false)
	c.release(nil)
}

// release gives the answers that were held back, or err instead.
func (c *comparison) release(err error) {
	held := c.held
	c.held = nil
	for _, answer := range held {
		answer(err)
	}
}

// acknowledge answers items that Apply decided, unless the state is in doubt: then
// they wait.
func (r *Replica) acknowledge(it *item, d Decision) {
	if r.comparison.doubt == nil {
		it.done(d, nil)
		return
	}
	r.comparison.held = append(r.comparison.held, func(err error) {
		if err != nil {
			d = Decision{}
		}
		it.done(d, err)
	})
}

// diverged keeps the state for inspection and says why the replica ends.
func (r *Replica) diverged(b *ballot, why string) error {
	kept := "it is not kept"
	if r.epoch != 0 {
		key := fmt.Sprintf("%s/0000/diverged/%016x-%08x", r.self.Cluster, uint64(r.applied.Index), uint32(r.self.Node))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.background), inspectionTimeout)
		defer cancel()
		if _, err := r.upload(ctx, key, r.state.BeginSnapshot()); err != nil {
			kept = fmt.Sprintf("it could not be kept for inspection in the bucket as %s: %v", key, err)
		} else {
			kept = fmt.Sprintf("it is kept for inspection in the bucket as %s", key)
		}
	}
	agreed := "no index is known at which they agreed"
	if r.comparison.agreed > 0 {
		agreed = fmt.Sprintf("the last index that agreed is %d", r.comparison.agreed)
	}
	return fatalf("the state diverged: at row %d this node's digest is %016x, %s; %s; nothing is acknowledged from this state, which is at row %d; %s; "+
		"find out whether the binaries or the machines differ, and start again: a start replays the log", b.at, uint64(b.own), why, agreed, r.applied.Index, kept)
}

// report proposes this node's digest at the fixed indexes.
func (r *Replica) report() {
	if r.epoch == 0 || r.applied.Index%statemachine.CheckpointInterval != 0 {
		return
	}
	err := r.Enqueue([]commands.Command{&commands.Checkpoint{At: r.applied.Index, Digest: r.state.Digest()}},
		func(Decision, error) {})
	if err != nil && !errors.Is(err, errClosed) {
		r.cfg.Logger.Warn("the digest of this index was not reported", "index", r.applied.Index, "error", err)
	}
}
