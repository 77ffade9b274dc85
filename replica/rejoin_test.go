package replica_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// depart has one node say that another is gone.
func depart(t *testing.T, by, gone *replica.Replica) {
	t.Helper()
	node, epoch := gone.Node()
	require.Equal(t, statemachine.Accepted, propose(t, by, &commands.Depart{Node: node, Epoch: epoch}).Results[0].Verdict)
}

// rejoining is a configuration that tells of each time that a node registers anew.
func (c *cluster) rejoining() (replica.Config, <-chan replica.Start) {
	starts := make(chan replica.Start, 10)
	cfg := c.config(c.log.Peer())
	cfg.Rejoined = func(s replica.Start) { starts <- s }
	return cfg, starts
}

func TestANodeThatWasTakenForGoneRegistersAnew(t *testing.T) {
	c := newCluster(t)
	cfg, starts := c.rejoining()
	r, other := c.start(cfg, 0), c.start(c.config(c.log.Peer()), 0)
	node, epoch := r.Node()
	for range 3 {
		depart(t, other, r)
		s := <-starts
		require.Equal(t, node, s.Node)
		require.Greater(t, s.Epoch, epoch)
		now, inForce := r.Node()
		require.Equal(t, s.Node, now)
		require.Equal(t, s.Epoch, inForce)
		epoch = s.Epoch
	}
	require.EqualValues(t, 3, r.Stats().Rejoins)
	require.Equal(t, statemachine.Accepted, propose(t, r, create("a")).Results[0].Verdict)
	require.NoError(t, r.Err())
}

// TestWhatWasRefusedIsProposedAgain: a node that is frozen before an insert, and
// departs meanwhile, proposes it again under its next epoch, before what came
// later; but not what names a segment of the old one.
func TestWhatWasRefusedIsProposedAgain(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	frozen, woken := make(chan struct{}), make(chan struct{})
	var appends atomic.Int32
	log.Before = func(_ context.Context, call string) error {
		if call == "append" && appends.Add(1) == 2 {
			close(frozen)
			<-woken
		}
		return nil
	}
	r, other := c.start(c.config(log), 0), c.start(c.config(c.log.Peer()), 0)
	_, epoch := r.Node()
	type answer struct {
		replica.Decision
		error
	}
	enqueue := func(epoch commands.Epoch, cmd commands.Command) <-chan answer {
		answers := make(chan answer, 1)
		done := func(d replica.Decision, err error) { answers <- answer{d, err} }
		if epoch == 0 {
			require.NoError(t, r.Enqueue([]commands.Command{cmd}, done))
		} else {
			require.NoError(t, r.EnqueueAs(epoch, []commands.Command{cmd}, done))
		}
		return answers
	}
	first := enqueue(0, create("a"))
	<-frozen
	inFlight, waiting := enqueue(0, create("a")), enqueue(epoch, commands.NewCommitSegment(1, 0, nil, nil))
	unsaid := enqueue(0, commands.NewCommitSegment(2, 0, nil, nil))
	depart(t, other, r)
	close(woken)

	require.Equal(t, statemachine.Accepted, (<-first).Results[0].Verdict)
	require.Equal(t, statemachine.Exists, (<-inFlight).Results[0].Verdict, "in the order in which they came")
	require.ErrorIs(t, (<-waiting).error, replica.ErrDeparted)
	require.ErrorIs(t, (<-unsaid).error, replica.ErrDeparted, "a segment belongs to the first epoch unless it is said")
	require.ErrorIs(t, (<-enqueue(epoch, commands.NewCommitSegment(1, 0, nil, nil))).error, replica.ErrDeparted)
	_, err := r.ProposeAs(t.Context(), epoch, &commands.Pack{Sequence: 1, Level: 1})
	require.ErrorIs(t, err, replica.ErrDeparted)

	_, epoch = r.Node()
	require.Equal(t, statemachine.Accepted, (<-enqueue(epoch, commands.NewCommitSegment(1, 0, nil, nil))).Results[0].Verdict)
	require.EqualValues(t, 1, r.View().Counts().Streams)
}

// TestANodeThatIsGoneLosesItsNumber to whoever is given it, and gets another.
func TestANodeThatIsGoneLosesItsNumber(t *testing.T) {
	c := newCluster(t)
	cfg, starts := c.rejoining()
	log := c.log.Peer()
	var frozen atomic.Bool
	log.Before = func(ctx context.Context, _ string) error {
		for frozen.Load() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	cfg.Log = log
	r, other := c.start(cfg, 0), c.start(c.config(c.log.Peer()), 0)
	node, _ := r.Node()
	frozen.Store(true)
	depart(t, other, r)
	stranger := c.start(c.config(c.log.Peer()), 0)
	taken, _ := stranger.Node()
	require.Equal(t, node, taken)
	frozen.Store(false)
	require.EqualValues(t, 3, (<-starts).Node)
	require.NoError(t, stranger.Err())
}

// TestASuccessorEndsANodeThatIsGone: a process that was told to have its number,
// or started with what it remembers, is meant to be this node.
func TestASuccessorEndsANodeThatIsGone(t *testing.T) {
	for name, previous := range map[string]bool{"told": false, "remembers": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			log := c.log.Peer()
			var frozen atomic.Bool
			log.Before = func(ctx context.Context, _ string) error {
				for frozen.Load() && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				return nil
			}
			r, other := c.start(c.config(log), 5), c.start(c.config(c.log.Peer()), 0)
			frozen.Store(true)
			depart(t, other, r)
			self := commands.RegisterNode{Cluster: testCluster, Node: 5, Incarnation: commands.Incarnation{0xee}, Level: commands.Level}
			if previous {
				for _, n := range other.View().Nodes() {
					if n.Node == 5 {
						self.Previous = n.Incarnation
					}
				}
			}
			successor, err := replica.Open(t.Context(), c.config(c.log.Peer()))
			require.NoError(t, err)
			defer successor.Close()
			_, _, err = successor.Register(t.Context(), self)
			require.NoError(t, err)
			frozen.Store(false)
			<-r.Failed()
			require.ErrorContains(t, r.Err(), "registered as node 5")
		})
	}
}

// TestANodeThatIsGoneMayBeTooOld when it comes back: then it says what it needs.
func TestANodeThatIsGoneMayBeTooOld(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	var frozen atomic.Bool
	log.Before = func(ctx context.Context, _ string) error {
		for frozen.Load() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	r := c.start(c.config(log), 0)
	newer, err := replica.Open(t.Context(), c.config(c.log.Peer()))
	require.NoError(t, err)
	defer newer.Close()
	_, _, err = newer.Register(t.Context(), commands.RegisterNode{Cluster: testCluster, Incarnation: commands.Incarnation{0xee}, Level: commands.Level + 1})
	require.NoError(t, err)
	activate := &commands.Activate{Level: commands.Level + 1, Release: "v9"}
	require.Equal(t, statemachine.LevelRefused, propose(t, newer, activate).Results[0].Verdict)
	frozen.Store(true)
	depart(t, newer, r)
	activated := make(chan struct{}) // which the binary under test, as newer is, too, does not survive
	require.NoError(t, newer.Enqueue([]commands.Command{activate}, func(replica.Decision, error) { close(activated) }))
	<-activated
	frozen.Store(false)
	<-r.Failed()
	require.ErrorContains(t, r.Err(), "run release v9 or a newer one")
}

func TestANodeThatEndsSaysSo(t *testing.T) {
	c := newCluster(t)
	cfg, starts := c.rejoining()
	r, other := c.start(cfg, 0), c.start(c.config(c.log.Peer()), 0)
	node, _ := r.Node()
	require.NoError(t, r.Depart(t.Context()))
	_, err := r.Propose(t.Context(), create("late"))
	require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
	r.Close()
	require.NoError(t, other.Sync(t.Context()))
	for _, n := range other.View().Nodes() {
		require.Equal(t, n.Node == node, n.Gone)
	}
	require.Empty(t, starts, "it does not come back")
}
