package replica_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/statemachine"
)

// misreading is the log as a faulty machine reads it: of creates of "a" it
// remembers another name.
type misreading struct{ *sqllogtest.Memory }

func (m misreading) Read(ctx context.Context, after commands.Index, maxRows, maxBytes int) ([]commands.Row, error) {
	rows, err := m.Memory.Read(ctx, after, maxRows, maxBytes)
	for i := range rows {
		payload, decodeErr := commands.DecodePayload(rows[i].Payload)
		if decodeErr != nil {
			return nil, decodeErr
		}
		for _, p := range payload.Proposals {
			for _, c := range p.Commands {
				if c, ok := c.(*commands.Create); ok && c.Name == "a" {
					c.Name = "b"
					rows[i].Payload = payload.Encode()
				}
			}
		}
	}
	return rows, err
}

// toCheckpoint proposes until an index was reached at which nodes report, and
// returns it.
func toCheckpoint(t *testing.T, r *replica.Replica) commands.Index {
	t.Helper()
	at := (r.Applied()/statemachine.CheckpointInterval + 1) * statemachine.CheckpointInterval
	for r.Applied() < at {
		_, err := r.Propose(t.Context(), &commands.Tick{})
		if r.Applied() < at {
			require.NoError(t, err)
		}
	}
	return at
}

// reports is how many reports the log holds.
func reports(t *testing.T, log *sqllogtest.Memory) (n int) {
	rows, err := log.Read(t.Context(), 0, 1<<20, 1<<30)
	require.NoError(t, err)
	for _, row := range rows {
		if strings.Contains(row.Summary.Kinds, "checkpoint") {
			n++
		}
	}
	return n
}

// requireKept requires a state that is kept for inspection, and that the message
// says where.
func requireKept(t *testing.T, c *cluster, message string) {
	t.Helper()
	list := c.bucket.List(nil)
	for {
		object, err := list.Next(t.Context())
		require.NotErrorIs(t, err, io.EOF, "nothing is kept")
		require.NoError(t, err)
		if strings.Contains(object.Key, "/diverged/") && strings.Contains(message, object.Key) {
			r, err := c.bucket.NewReader(t.Context(), object.Key, nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, r.Close()) }()
			state, err := statemachine.Restore(r)
			require.NoError(t, err)
			_, found := state.View().Lookup("b")
			require.True(t, found, "it is the state in doubt")
			return
		}
	}
}

// A node whose state is not that of most ends, keeps it, and names the last index
// that agreed; the others go on.
func TestTheMinorityEnds(t *testing.T) {
	c := newCluster(t)
	one, two := c.start(c.config(c.log.Peer()), 0), c.start(c.config(c.log.Peer()), 0)
	bad := c.start(c.config(misreading{c.log.Peer()}), 0)
	agreed := toCheckpoint(t, one)
	require.Eventually(t, func() bool { return reports(t, c.log) == 3 }, patience, time.Millisecond)
	for _, r := range []*replica.Replica{one, two, bad} {
		head, err := c.log.Head(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.WaitApplied(t.Context(), head.Index))
	}
	propose(t, one, create("a"))
	toCheckpoint(t, one)
	<-bad.Failed()
	require.ErrorContains(t, bad.Err(), fmt.Sprintf("the last index that agreed is %d", agreed))
	require.ErrorContains(t, bad.Err(), "2 of 3")
	requireKept(t, c, bad.Err().Error())
	propose(t, two, create("c"))
	propose(t, one, create("d"))
	require.NoError(t, one.Err())
	require.NoError(t, two.Err())
}

// Nothing is acknowledged from when a difference is seen until most have said what
// they have.
func TestAcknowledgementsWaitForTheMajority(t *testing.T) {
	c := newCluster(t)
	quiet := c.log.Peer()
	var silent atomic.Bool
	speak := make(chan struct{})
	quiet.Before = func(_ context.Context, call string) error {
		if call == "append" && silent.Load() {
			<-speak
		}
		return nil
	}
	one, two := c.start(c.config(c.log.Peer()), 0), c.start(c.config(quiet), 0)
	bad := c.start(c.config(misreading{c.log.Peer()}), 0)
	propose(t, one, create("a"))
	silent.Store(true)
	at := toCheckpoint(t, one)
	require.Eventually(t, func() bool { return reports(t, c.log) == 2 }, patience, time.Millisecond)
	head, err := c.log.Head(t.Context())
	require.NoError(t, err)
	require.NoError(t, one.WaitApplied(t.Context(), head.Index))
	answered := make(chan error, 1)
	require.NoError(t, one.Enqueue([]commands.Command{create("c")}, func(_ replica.Decision, err error) { answered <- err }))
	require.Eventually(t, func() bool { // it is decided
		_, found := one.View().Lookup("c")
		return found
	}, patience, time.Millisecond)
	require.Empty(t, answered, "and not acknowledged")
	close(speak)
	require.NoError(t, <-answered)
	<-bad.Failed()
	require.NoError(t, one.Err())
	require.NoError(t, two.Err())
	require.GreaterOrEqual(t, one.Applied(), at)
}

// Of two that differ nobody knows who is right: both end. A start replays the log.
func TestATieEndsAll(t *testing.T) {
	c := newCluster(t)
	good := c.start(c.config(c.log.Peer()), 0)
	bad := c.start(c.config(misreading{c.log.Peer()}), 0)
	propose(t, good, create("a"))
	toCheckpoint(t, good)
	<-good.Failed()
	<-bad.Failed()
	for _, r := range []*replica.Replica{good, bad} {
		require.ErrorContains(t, r.Err(), "none of the 2 digests has a majority")
		require.ErrorContains(t, r.Err(), "no index is known at which they agreed")
	}
	requireKept(t, c, bad.Err().Error())
	again := c.start(c.config(c.log.Peer()), 0)
	_, found := again.View().Lookup("a")
	require.True(t, found)
	propose(t, again, create("c"))
}

// While nodes differ no snapshot is confirmed: a replay by the same binary would
// repeat its fault.
func TestNoSnapshotIsConfirmedInDoubt(t *testing.T) {
	c := newCluster(t)
	quiet := c.log.Peer()
	var silent atomic.Bool
	speak := make(chan struct{})
	quiet.Before = func(_ context.Context, call string) error {
		if call == "append" && silent.Load() {
			<-speak
		}
		return nil
	}
	cfg := c.config(c.log.Peer())
	one := c.start(cfg, 0)
	c.start(c.config(quiet), 0)
	misread := misreading{c.log.Peer()}
	faulty := c.config(misread)
	faulty.SnapshotBytes = 1 << 10
	bad := c.start(faulty, 0)
	propose(t, one, create("a"))
	silent.Store(true)
	toCheckpoint(t, one)
	require.Eventually(t, func() bool { return reports(t, c.log) == 2 }, patience, time.Millisecond)
	head, err := c.log.Head(t.Context())
	require.NoError(t, err)
	require.NoError(t, bad.WaitApplied(t.Context(), head.Index))
	before := one.Applied()
	for range 100 {
		require.NoError(t, one.Enqueue([]commands.Command{&commands.Tick{}}, func(replica.Decision, error) {}))
	}
	require.NoError(t, bad.WaitApplied(t.Context(), before+1))
	close(speak)
	<-bad.Failed()
	bad.Close()
	list, err := c.log.Snapshots(t.Context())
	require.NoError(t, err)
	for _, s := range list {
		require.False(t, s.Confirmed && s.Index > head.Index, "row %d", s.Index)
	}
}
