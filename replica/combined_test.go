package replica_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/memblob"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/replica/combine"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/statemachine"
)

// unreliable is a way to the combiner of another node on which requests and
// answers get lost.
type unreliable struct {
	*combine.Combiner
	sent, lost, late atomic.Int64
}

func (u *unreliable) Insert(ctx context.Context, in commands.Insert) (commands.Row, error) {
	switch u.sent.Add(1) % 7 {
	case 2:
		return commands.Row{}, fmt.Errorf("%w: connection refused", commands.ErrNotSent)
	case 4: // the answer is lost
		u.lost.Add(1)
		_, _ = u.Combiner.Insert(ctx, in)
		return commands.Row{}, fmt.Errorf("%w: connection reset", commands.ErrUnknown)
	case 6: // it arrives when its proposer has long helped itself
		u.late.Add(1)
		go func() {
			time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
			_, _ = u.Combiner.Insert(context.WithoutCancel(ctx), in)
		}()
		return commands.Row{}, fmt.Errorf("%w: no answer", commands.ErrUnknown)
	}
	return u.Combiner.Insert(ctx, in)
}

// Whatever gets lost on the way to the node that inserts for all, each proposal
// is applied once, on all nodes, and its results reach its proposer.
func TestOneNodeInsertsForAll(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	log.Before = func(context.Context, string) error {
		time.Sleep(time.Millisecond) // a commit, behind which others come together
		return nil
	}
	combiner := combine.New(log)
	way := &unreliable{Combiner: combiner}
	var nodes []*replica.Replica
	for range 4 {
		cfg := c.config(c.log.Peer())
		cfg.Combiner = way
		nodes = append(nodes, c.start(cfg, 0))
	}
	const each = 60
	var created atomic.Int64
	var running sync.WaitGroup
	for _, r := range nodes {
		running.Go(func() {
			for i := range each {
				// All want the same names: each is accepted once, of one of them.
				d, err := r.Propose(t.Context(), create(fmt.Sprint(i)))
				if err != nil {
					t.Error(err)
					return
				}
				if d.Results[0].Verdict == statemachine.Accepted {
					created.Add(1)
				}
			}
		})
	}
	running.Wait()
	combiner.Close() // with what was late
	require.EqualValues(t, each, created.Load())
	require.Positive(t, way.lost.Load())
	require.Positive(t, way.late.Load())

	head, err := c.log.Head(t.Context())
	require.NoError(t, err)
	digests := make(map[statemachine.Counts]bool)
	for _, r := range nodes {
		require.NoError(t, r.WaitApplied(t.Context(), head.Index))
		digests[r.View().Counts()] = true
		require.NoError(t, r.Err())
	}
	require.Len(t, digests, 1)
	rows, err := c.log.Read(t.Context(), 0, 1<<20, 1<<30)
	require.NoError(t, err)
	seen := make(map[commands.Origin]bool)
	shared := 0
	for _, row := range rows {
		payload, err := commands.DecodePayload(row.Payload)
		require.NoError(t, err)
		if len(payload.Proposals) > 1 {
			shared++
		}
		for _, p := range payload.Proposals {
			require.False(t, seen[p.Origin], "%v is in the log once", p.Origin)
			seen[p.Origin] = true
		}
	}
	require.Positive(t, shared)
	require.Len(t, seen, len(nodes)*(each+1))
}

// A node of which the log lost what it applied is refused alone.
func TestALostTailIsNobodyElses(t *testing.T) {
	c := newCluster(t)
	combiner := combine.New(c.log.Peer())
	defer combiner.Close()
	cfg := c.config(c.log.Peer())
	cfg.Combiner = combiner
	good := c.start(cfg, 0)
	propose(t, good, create("a"))
	astray := commands.Insert{
		Origin: commands.Origin{Node: 9, Epoch: 9, Seq: 9}, Payload: (&commands.Payload{Clock: 1}).Encode(),
		Applied: commands.Position{Index: 1, Row: 12345},
	}
	var refused sync.WaitGroup
	for range 20 {
		refused.Go(func() {
			_, err := combiner.Insert(t.Context(), astray)
			if err == nil {
				t.Error("it stands")
			}
		})
		propose(t, good, &commands.Tick{})
	}
	refused.Wait()
	require.NoError(t, good.Err())
}

// refusing is the combiner of a node that sees another log than its proposer: that
// of another cluster, or of a server that was left behind by a failover.
type refusing struct{ err error }

func (r refusing) Insert(context.Context, commands.Insert) (commands.Row, error) {
	return commands.Row{}, r.err
}

// What another node's log says ends nobody: a node believes its own.
func TestARefusalOfAnotherNodeIsNotTheLogs(t *testing.T) {
	for _, err := range []error{
		&commands.LostTailError{Applied: commands.Position{Index: 9, Row: 1}}, &commands.TruncatedError{After: 1, First: 9},
		commands.ErrDamaged, errors.New("permission denied"),
	} {
		t.Run(err.Error(), func(t *testing.T) {
			c := newCluster(t)
			cfg := c.config(c.log)
			cfg.Combiner = refusing{err}
			r := c.start(cfg, 0)
			propose(t, r, create("a"))
			require.NoError(t, r.Err())
		})
	}
}

// BenchmarkNodes is how many proposals of 16 appenders each some nodes get
// applied on one Postgres, each inserting for itself or one for all, and how long
// a proposal waits.
func BenchmarkNodes(b *testing.B) {
	for _, nodes := range []int{1, 3, 10} {
		b.Run(fmt.Sprintf("each-for-itself/%d", nodes), func(b *testing.B) { benchmarkNodes(b, nodes, false) })
		b.Run(fmt.Sprintf("one-for-all/%d", nodes), func(b *testing.B) { benchmarkNodes(b, nodes, true) })
	}
}

func benchmarkNodes(b *testing.B, nodes int, shared bool) {
	d := sqllogtest.Postgres(b)
	bucket := memblob.OpenBucket(nil)
	defer func() { require.NoError(b, bucket.Close()) }()
	var combiner *combine.Combiner
	if shared {
		combiner = combine.New(d.Open(b))
		defer combiner.Close()
	}
	var replicas []*replica.Replica
	for i := range nodes {
		cfg := replica.Config{Log: d.Open(b), Bucket: bucket, Logger: slog.New(slog.DiscardHandler)}
		if shared {
			cfg.Combiner = combiner
		}
		r, err := replica.Open(b.Context(), cfg)
		require.NoError(b, err)
		_, _, err = r.Register(b.Context(), commands.RegisterNode{
			Cluster: testCluster, Incarnation: commands.Incarnation{byte(i + 1)}, Level: commands.Level,
		})
		require.NoError(b, err)
		defer r.Close()
		replicas = append(replicas, r)
	}
	const appenders = 16
	var left atomic.Int64
	left.Store(int64(b.N))
	var mu sync.Mutex
	var waits []time.Duration
	var running sync.WaitGroup
	b.ResetTimer()
	for _, r := range replicas {
		for range appenders {
			running.Go(func() {
				for left.Add(-1) >= 0 {
					begun := time.Now()
					if _, err := r.Propose(b.Context(), &commands.Tick{}); err != nil {
						b.Error(err)
						return
					}
					mu.Lock()
					waits = append(waits, time.Since(begun))
					mu.Unlock()
				}
			})
		}
	}
	running.Wait()
	b.StopTimer()
	slices.Sort(waits)
	b.ReportMetric(float64(len(waits))/b.Elapsed().Seconds(), "proposals/s")
	b.ReportMetric(float64(replicas[0].Applied())/b.Elapsed().Seconds(), "rows/s")
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(waits[(len(waits)-1)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
	}
}
