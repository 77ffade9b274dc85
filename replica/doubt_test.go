package replica_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// A registration that was fenced before its process saw it stand.
func TestANodeFencedWhileItRegistersDoesNotStart(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	late, err := replica.Open(t.Context(), c.config(log))
	require.NoError(t, err)
	t.Cleanup(late.Close)
	other := c.start(c.config(c.log.Peer()), 3) // so that the next row is not the one after what late applied
	propose(t, other, &commands.Tick{})
	log.Lost = func(commands.Insert, commands.Inserted) error {
		c.start(c.config(c.log.Peer()), 7)
		return nil
	}
	self := commands.RegisterNode{Cluster: testCluster, Node: 7, Level: commands.Level}
	_, _ = rand.Read(self.Incarnation[:])
	_, _, err = late.Register(t.Context(), self)
	require.ErrorContains(t, err, "registered as node 7")
}

func TestSnapshotsAreTakenWhileTheQueueNeverEmpties(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	log.Before = func(_ context.Context, call string) error {
		if call == "append" {
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	cfg := c.config(log)
	cfg.SnapshotBytes = 2000
	cfg.GroupBytes = 1
	r := c.start(cfg, 0)
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for ctx.Err() == nil {
				_, _ = r.Propose(ctx, &commands.Tick{})
			}
		})
	}
	first := commands.Index(0)
	require.Eventually(t, func() bool {
		if first == 0 {
			first = r.Stats().SnapshotIndex
			return false
		}
		return r.Stats().SnapshotIndex > first
	}, patience, time.Millisecond, "one snapshot after the other")
	stop()
	done.Wait()
}

// The first try lands late; the second is refused for good. Nobody may say that
// nothing was written.
func TestARefusalAfterADoubtIsNoRefusal(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	var tries atomic.Int32
	log.Before = func(_ context.Context, call string) error {
		if call != "append" {
			return nil
		}
		switch tries.Add(1) {
		case 2:
			return errors.New("reset: the statement may still run")
		case 3:
			return fmt.Errorf("%w: 42501 permission denied", errRefused)
		}
		return nil
	}
	r := c.start(c.config(&refusingLog{log}), 0)
	_, err := r.Propose(t.Context(), create("a"))
	require.Equal(t, stream.CodeOutcomeUnknown, stream.CodeOf(err))
	require.Equal(t, statemachine.Accepted, propose(t, r, create("b")).Results[0].Verdict, "the replica goes on")
}

var errRefused = errors.New("refused for good")

// refusingLog answers some inserts with an error that is no doubt.
type refusingLog struct{ replica.Log }

func (l *refusingLog) Append(ctx context.Context, in commands.Insert) (commands.Inserted, error) {
	at, err := l.Log.Append(ctx, in)
	if errors.Is(err, errRefused) {
		err = errRefused
	}
	return at, err
}

func TestARefusedRowDoesNotStrandWhatWaits(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	hold := make(chan struct{})
	var tries atomic.Int32
	log.Before = func(_ context.Context, call string) error {
		if call == "append" && tries.Add(1) == 2 {
			<-hold
			return errRefused
		}
		return nil
	}
	cfg := c.config(&refusingLog{log})
	cfg.GroupBytes, cfg.Poll = 1, time.Hour
	r := c.start(cfg, 0)
	answers := make(chan error, 2)
	for i := range 2 {
		require.NoError(t, r.Enqueue([]commands.Command{create(fmt.Sprint(i))}, func(_ replica.Decision, err error) { answers <- err }))
	}
	close(hold)
	require.Error(t, <-answers)
	require.NoError(t, <-answers)
}

// Another node's row comes before ours, and both are lost before we read them.
func TestARowLostBeforeItWasReadEndsTheReplica(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	var armed atomic.Bool
	var at commands.Index
	log.Lost = func(commands.Insert, commands.Inserted) error {
		if armed.CompareAndSwap(true, false) {
			c.log.Rewind(at)
		}
		return nil
	}
	log.Before = func(_ context.Context, call string) error {
		if call != "append" || !armed.Load() {
			return nil
		}
		_, err := c.log.Append(t.Context(), commands.Insert{Origin: commands.Origin{Seq: 999}, Payload: (&commands.Payload{Clock: 1}).Encode()})
		return err
	}
	cfg := c.config(log)
	cfg.Poll = time.Hour
	r := c.start(cfg, 0)
	at = r.Applied()
	armed.Store(true)
	_, err := r.Propose(t.Context(), create("a"))
	require.Error(t, err)
	<-r.Failed()
	require.ErrorIs(t, r.Err(), commands.ErrLostTail)
}

// The log answers where it ends, and its rows do not come.
func TestAViewThatIsNotFedGoesStale(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	var starved atomic.Bool
	log.Before = func(_ context.Context, call string) error {
		if call == "read" && starved.Load() {
			return errors.New("too slow")
		}
		return nil
	}
	r := c.start(c.config(log), 0)
	other := c.start(c.config(c.log.Peer()), 0)
	require.NoError(t, r.Sync(t.Context()))
	starved.Store(true)
	propose(t, other, create("a"))
	begun := time.Now() // from here on, whoever asks is told of a row that does not come
	for time.Since(begun) < 300*time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		require.Error(t, r.Sync(ctx))
		cancel()
	}
	require.GreaterOrEqual(t, r.Stale(), 300*time.Millisecond)
	starved.Store(false)
	require.NoError(t, r.Sync(t.Context()))
	require.Less(t, r.Stale(), time.Since(begun))
}
