package upkeep

import (
	"context"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// Nodes is where nodes say that they live.
type Nodes interface {
	// Heartbeats lists the last beat of every node.
	Heartbeats(ctx context.Context) ([]commands.Heartbeat, error)
	// Forget removes a node's beat unless a later epoch than this has beaten.
	Forget(ctx context.Context, node commands.NodeID, epoch commands.Epoch) error
}

const (
	// looksPerTimeout is how often beats are looked at, as a part of the timeout.
	looksPerTimeout = 6
	// rememberGone is how long the last beat of a node that is gone stays, for
	// people who look at it.
	rememberGone = 10 * time.Minute
)

// nodes departs nodes that stay away: those whose beat did not change while this
// node, holding the lease, looked at it again and again for the whole timeout. It
// asks its own monotonic clock only, so clocks that differ or jump depart nobody.
// Nor does an outage of SQL, in which nobody can beat: time counts only while looks
// succeed, none of them late, and this node's own beats arrive.
type nodes struct {
	*Upkeep
	seen    map[commands.NodeID]sighting
	own     sighting
	looked  time.Time // when the last look that succeeded was over
	settled int       // nodes that are gone and forgotten
}

// sighting is a beat as it was first seen.
type sighting struct {
	epoch commands.Epoch
	beat  stream.Time // of the database; 0: none of this epoch
	since time.Time   // when the look was over that saw it first
}

// see compares a beat with the one seen before, in a look that began and was over
// then, and says for how long it surely has been the same.
func (s *sighting) see(epoch commands.Epoch, beat stream.Time, began, over time.Time) time.Duration {
	if s.epoch != epoch || s.beat != beat || s.since.IsZero() {
		*s = sighting{epoch: epoch, beat: beat, since: over}
	}
	return began.Sub(s.since)
}

// backlog is the other nodes, but for those that are gone and forgotten.
func (j *nodes) backlog() uint64 {
	if j.cfg.Nodes == nil {
		return 0
	}
	return uint64(max(len(j.cfg.Replica.View().Nodes())-1-j.settled, 0))
}

func (j *nodes) step(ctx context.Context, now time.Time) (more bool, err error) {
	asked := time.Now()
	list, err := j.cfg.Nodes.Heartbeats(ctx)
	if err != nil {
		return false, err
	}
	over := now.Add(time.Since(asked))
	beats := make(map[commands.NodeID]commands.Heartbeat, len(list))
	for _, h := range list {
		beats[h.Node] = h
	}
	if !j.uninterrupted(beats, now, over) {
		clear(j.seen)
	}
	j.looked = over
	return false, j.judge(ctx, beats, now, over)
}

// uninterrupted tells whether this look may be added to those before it. What
// kept this node from looking, or its own beats from arriving, may have kept those
// of others from arriving too.
func (j *nodes) uninterrupted(beats map[commands.NodeID]commands.Heartbeat, began, over time.Time) bool {
	late := j.cfg.NodeTimeout / 2
	self := j.holder()
	mine := beats[self.Node]
	if mine.Epoch != self.Epoch {
		mine.At = 0
	}
	silent := j.own.see(self.Epoch, mine.At, began, over)
	return mine.At != 0 && silent < late && began.Sub(j.looked) < late && over.Sub(began) < late
}

// judge departs whoever was away for too long, and forgets who is gone.
func (j *nodes) judge(ctx context.Context, beats map[commands.NodeID]commands.Heartbeat, began, over time.Time) error {
	self := j.holder()
	seen := make(map[commands.NodeID]sighting, len(beats))
	settled := 0
	for _, n := range j.cfg.Replica.View().Nodes() {
		if n.Node == self.Node {
			continue
		}
		beat, known := beats[n.Node]
		if beat.Epoch != n.Epoch {
			beat.At = 0
		}
		s := j.seen[n.Node]
		away := s.see(n.Epoch, beat.At, began, over)
		switch {
		case n.Gone && (!known || beat.Epoch > n.Epoch):
			settled++
		case n.Gone && away >= rememberGone:
			if err := j.cfg.Nodes.Forget(ctx, n.Node, n.Epoch); err != nil {
				return err
			}
		case !n.Gone && away >= j.cfg.NodeTimeout:
			if err := j.depart(ctx, n.Node, n.Epoch, away); err != nil {
				return err
			}
		}
		seen[n.Node] = s
	}
	j.seen, j.settled = seen, settled
	return nil
}

func (j *nodes) depart(ctx context.Context, node commands.NodeID, epoch commands.Epoch, away time.Duration) error {
	_, err := j.cfg.Replica.Propose(ctx, &commands.Depart{Node: node, Epoch: epoch})
	if err == nil {
		j.cfg.Logger.Warn("a node stayed away and is taken for gone; it registers anew when it comes back",
			"gone", node, "epoch", epoch, "silent", away.Round(time.Second).String())
	}
	return err
}
