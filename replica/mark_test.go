package replica_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/replica"
)

// register opens and registers a replica that may be refused.
func (c *cluster) register(t *testing.T) error {
	t.Helper()
	r, err := replica.Open(t.Context(), c.config(c.log.Peer()))
	if err != nil {
		return err
	}
	defer r.Close()
	self := commands.RegisterNode{Cluster: testCluster, Level: commands.Level}
	_, _ = rand.Read(self.Incarnation[:])
	_, _, err = r.Register(t.Context(), self)
	return err
}

func TestALostTailIsNoticedByEveryStart(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.config(c.log.Peer()), 0)
	propose(t, r, create("a"))
	propose(t, r, create("b"))
	r.Close() // marks what was applied
	c.log.Rewind(2)
	head, err := c.log.Head(t.Context())
	require.NoError(t, err)
	for range 3 {
		err := c.register(t)
		require.ErrorIs(t, err, commands.ErrLostTail)
		require.ErrorContains(t, err, "rows 3 to 3 are gone")
		now, err := c.log.Head(t.Context())
		require.NoError(t, err)
		require.Equal(t, head, now, "a start that is refused writes nothing")
	}
}

func TestALostTailThatGrewAgainIsNoticedByAStart(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.config(c.log.Peer()), 0)
	propose(t, r, create("a"))
	r.Close()
	c.log.Rewind(1)
	for seq := range 5 {
		_, err := c.log.Append(t.Context(), commands.Insert{
			Origin: commands.Origin{Seq: uint64(100 + seq)}, Payload: (&commands.Payload{Clock: 1}).Encode(),
		})
		require.NoError(t, err)
	}
	require.ErrorIs(t, c.register(t), commands.ErrLostTail)
}

func TestALossNoticedWhileRunningStopsTheNextStartToo(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.config(c.log.Peer()), 0)
	propose(t, r, create("a"))
	propose(t, r, create("b"))
	c.log.Rewind(1)
	<-r.Failed()
	r.Close()
	require.ErrorIs(t, c.register(t), commands.ErrLostTail)
}

func TestAMarkThatCannotBeReadIsNamed(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.config(c.log.Peer()), 0)
	r.Close()
	key := testCluster.String() + "/0000/applied/00000001"
	require.NoError(t, c.bucket.WriteAll(t.Context(), key, []byte("something else"), nil))
	require.ErrorContains(t, c.register(t), key)
}

// TestABucketThatNeverAnswersDoesNotHoldTheComparison: whoever waits for it deletes
// nothing else either.
func TestABucketThatNeverAnswersDoesNotHoldTheComparison(t *testing.T) {
	c := newCluster(t)
	c.start(c.config(c.log.Peer()), 0).Close() // leaves a mark
	for _, silent := range []faultbucket.Kind{faultbucket.List, faultbucket.Get} {
		cfg := c.config(c.log.Peer())
		cfg.CallTimeout = time.Second
		var faults *faultbucket.Faults
		cfg.Bucket, faults = faultbucket.Wrap(c.bucket, nil)
		r := c.start(cfg, 0)
		faults.SetPlan(func(op faultbucket.Op) (d faultbucket.Decision) {
			if op.Kind == silent {
				d.Delay = time.Hour
			}
			return d
		})
		require.ErrorIs(t, r.CompareMarks(t.Context()), context.DeadlineExceeded, silent.String())
		r.Close()
	}
}
