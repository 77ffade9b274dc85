package replica_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testCluster is the identity of every log in these tests.
var testCluster = commands.ClusterID{1, 2, 3}

// cluster is a log and a bucket that replicas come and go on.
type cluster struct {
	t      *testing.T
	log    *sqllogtest.Memory
	bucket *blob.Bucket
}

func newCluster(t *testing.T) *cluster {
	bucket := memblob.OpenBucket(nil)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	return &cluster{t: t, log: sqllogtest.NewMemory(), bucket: bucket}
}

// patience turns a hang into a failure, however busy the machine is.
const patience = time.Minute

func (c *cluster) config(log replica.Log) replica.Config {
	return replica.Config{
		Log: log, Bucket: c.bucket, Logger: slog.New(slog.DiscardHandler),
		Poll: 20 * time.Millisecond, QueueTimeout: patience, CallTimeout: patience,
	}
}

// start opens a replica and registers it as node (0: the lowest free).
func (c *cluster) start(cfg replica.Config, node commands.NodeID) *replica.Replica {
	c.t.Helper()
	r, err := replica.Open(c.t.Context(), cfg)
	require.NoError(c.t, err)
	self := commands.RegisterNode{Cluster: testCluster, Node: node, Level: commands.Level}
	_, _ = rand.Read(self.Incarnation[:])
	_, _, err = r.Register(c.t.Context(), self)
	require.NoError(c.t, err)
	c.t.Cleanup(r.Close)
	require.NoError(c.t, r.KeepMarks(c.t.Context()))
	return r
}

func create(name string) *commands.Create {
	return &commands.Create{Name: stream.Name(name), Config: stream.Config{ContentType: "text/plain"}}
}

func propose(t *testing.T, r *replica.Replica, cmds ...commands.Command) replica.Decision {
	t.Helper()
	d, err := r.Propose(t.Context(), cmds...)
	require.NoError(t, err)
	require.Len(t, d.Results, len(cmds))
	return d
}

func TestProposalsAreAppliedInOrderAndAnswered(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.config(c.log), 0)
	node, epoch := r.Node()
	require.EqualValues(t, 1, node)
	require.EqualValues(t, 1, epoch)

	d := propose(t, r, create("a"), create("a"))
	require.Equal(t, statemachine.Accepted, d.Results[0].Verdict)
	require.Equal(t, statemachine.Exists, d.Results[1].Verdict)
	require.GreaterOrEqual(t, r.Applied(), d.Index)
	_, ok := r.View().Lookup("a")
	require.True(t, ok, "an answered command is in the view")
}

func TestWhatWaitsSharesARow(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	hold := make(chan struct{})
	var inserts atomic.Int32
	log.Before = func(_ context.Context, call string) error {
		if call == "append" && inserts.Add(1) == 2 { // the first after the registration
			<-hold
		}
		return nil
	}
	r := c.start(c.config(log), 0)
	var answered sync.WaitGroup
	const groups = 50
	for i := range groups {
		answered.Add(1)
		require.NoError(t, r.Enqueue([]commands.Command{create(fmt.Sprint(i))}, func(_ replica.Decision, err error) {
			defer answered.Done()
			require.NoError(t, err)
		}))
	}
	close(hold)
	answered.Wait()
	require.LessOrEqual(t, r.Stats().Rows, uint64(4), "registration, the held row, and the rest together")
	require.Equal(t, uint64(groups)+1, r.Stats().Groups)
}

func TestARowIsBoundedInBytes(t *testing.T) {
	c := newCluster(t)
	cfg := c.config(c.log)
	cfg.GroupBytes = 1 // one group a row
	r := c.start(cfg, 0)
	var answered sync.WaitGroup
	for i := range 10 {
		answered.Add(1)
		require.NoError(t, r.Enqueue([]commands.Command{create(fmt.Sprint(i))}, func(replica.Decision, error) { answered.Done() }))
	}
	answered.Wait()
	require.EqualValues(t, 11, r.Stats().Rows)
}

func TestALostAnswerIsResolvedByOrigin(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	var lost atomic.Int32
	log.Lost = func(in commands.Insert, _ commands.Inserted) error {
		if in.Origin.Node != 0 && lost.Add(1)%2 == 1 {
			return errors.New("the connection broke")
		}
		return nil
	}
	r := c.start(c.config(log), 0)
	for i := range 10 {
		d := propose(t, r, create(fmt.Sprint(i)))
		require.Equal(t, statemachine.Accepted, d.Results[0].Verdict)
	}
	require.EqualValues(t, 11, r.Applied(), "each row is in the log once")
}

func TestAnUnknownInsertThatIsNotThereIsRepeated(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	var calls atomic.Int32
	log.Before = func(_ context.Context, call string) error {
		if call == "append" && calls.Add(1)%3 == 2 {
			return errors.New("reset before it was sent, which the caller cannot know")
		}
		return nil
	}
	r := c.start(c.config(log), 0)
	for i := range 10 {
		require.Equal(t, statemachine.Accepted, propose(t, r, create(fmt.Sprint(i))).Results[0].Verdict)
	}
	require.EqualValues(t, 11, r.Applied())
	require.Positive(t, r.Stats().Retries)
}

func TestAForeignRowUnderOnesOriginEndsTheReplica(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.config(c.log.Peer()), 0)
	node, epoch := r.Node()
	_, err := c.log.Append(t.Context(), commands.Insert{
		Origin: commands.Origin{Node: node, Epoch: epoch, Seq: 1}, Payload: (&commands.Payload{Clock: 1}).Encode(),
	})
	require.NoError(t, err)
	_, err = r.Propose(t.Context(), create("a"))
	require.Error(t, err)
	<-r.Failed()
	require.ErrorContains(t, r.Err(), "another process writes as this node")
}

func TestANewerRegistrationFencesTheOlder(t *testing.T) {
	c := newCluster(t)
	older := c.start(c.config(c.log.Peer()), 7)
	newer := c.start(c.config(c.log.Peer()), 7)
	<-older.Failed()
	require.ErrorContains(t, older.Err(), "registered as node 7")
	_, err := older.Propose(t.Context(), create("a"))
	require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
	require.Equal(t, statemachine.Accepted, propose(t, newer, create("a")).Results[0].Verdict)
}

func TestAFencedProposalIsNotWritten(t *testing.T) {
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
	older := c.start(c.config(log), 7)
	answer := make(chan error, 1)
	require.NoError(t, older.Enqueue([]commands.Command{create("a")}, func(_ replica.Decision, err error) { answer <- err }))
	<-frozen
	newer := c.start(c.config(c.log.Peer()), 7)
	close(woken)
	require.Equal(t, stream.CodeUnavailable, stream.CodeOf(<-answer))
	require.NoError(t, newer.Sync(t.Context()))
	_, ok := newer.View().Lookup("a")
	require.False(t, ok)
}

func TestNodesSeeEachOthersRows(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(c.config(c.log.Peer()), 0), c.start(c.config(c.log.Peer()), 0)
	for i := range 20 {
		name := fmt.Sprint(i)
		propose(t, []*replica.Replica{a, b}[i%2], create(name))
		other := []*replica.Replica{b, a}[i%2]
		require.NoError(t, other.Sync(t.Context()))
		_, ok := other.View().Lookup(stream.Name(name))
		require.True(t, ok, "after Sync the view holds what was acknowledged elsewhere")
	}
}

func TestConcurrentSyncsShareHeadQueries(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	var heads atomic.Int32
	hold := make(chan struct{})
	var holding atomic.Bool
	log.Before = func(_ context.Context, call string) error {
		if call == "head" && holding.Load() {
			heads.Add(1)
			<-hold
		}
		return nil
	}
	cfg := c.config(log)
	cfg.Poll = time.Hour
	r := c.start(cfg, 0)
	holding.Store(true)
	var done sync.WaitGroup
	const callers = 100
	waiting := &waits{Context: context.Background()}
	for range callers {
		done.Go(func() { require.NoError(t, r.Sync(waiting)) })
	}
	require.Eventually(t, func() bool { return heads.Load() == 1 && waiting.began.Load() == callers }, patience, time.Millisecond)
	close(hold)
	done.Wait()
	require.LessOrEqual(t, heads.Load(), int32(2))
}

// waits is a context that counts who waits for something with it.
type waits struct {
	context.Context
	began atomic.Int32
}

func (w *waits) Done() <-chan struct{} {
	w.began.Add(1)
	return w.Context.Done()
}

func TestALogThatLostItsTailEndsTheReplica(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.config(c.log.Peer()), 0)
	propose(t, r, create("a"))
	propose(t, r, create("b"))
	c.log.Rewind(1)
	<-r.Failed()
	require.ErrorIs(t, r.Err(), commands.ErrLostTail)
	require.ErrorContains(t, r.Err(), "rows 2 to 3")
}

// beside starts a node that reads only when it has to, on a log whose last row is
// replaced by another then.
func beside(t *testing.T, c *cluster) *replica.Replica {
	t.Helper()
	cfg := c.config(c.log.Peer())
	cfg.Poll = time.Hour
	r := c.start(cfg, 0)
	propose(t, r, create("a"))
	c.log.Rewind(1)
	_, err := c.log.Append(t.Context(), commands.Insert{Origin: commands.Origin{Seq: 99}, Payload: (&commands.Payload{Clock: 1}).Encode()})
	require.NoError(t, err)
	return r
}

func TestALogThatLostItsTailAndGrewAnotherIsNoticedByAnInsert(t *testing.T) {
	r := beside(t, newCluster(t))
	_, err := r.Propose(t.Context(), create("b"))
	require.Error(t, err)
	<-r.Failed()
	require.ErrorIs(t, r.Err(), commands.ErrLostTail)
}

// Nothing is read from a view of rows that were replaced by others, as many.
func TestALogThatLostItsTailAndGrewAnotherIsNoticedByARead(t *testing.T) {
	r := beside(t, newCluster(t))
	require.ErrorIs(t, r.Sync(t.Context()), commands.ErrLostTail)
	require.ErrorIs(t, r.Err(), commands.ErrLostTail)
}

func TestARowThatCannotBeReadEndsTheReplica(t *testing.T) {
	c := newCluster(t)
	r := c.start(c.config(c.log.Peer()), 0)
	_, err := c.log.Append(t.Context(), commands.Insert{
		Origin: commands.Origin{Seq: 99}, Payload: []byte{0xbf, 0x01, 0x02, 0xff}, // format 2
	})
	require.NoError(t, err)
	<-r.Failed()
	var unknown *commands.UnknownError
	require.ErrorAs(t, r.Err(), &unknown)
}

// damagedLog cannot read its rows once damaged is set.
type damagedLog struct {
	replica.Log
	damaged atomic.Bool
}

func (l *damagedLog) Read(ctx context.Context, after commands.Index, maxRows, maxBytes int) ([]commands.Row, error) {
	if l.damaged.Load() {
		return nil, fmt.Errorf("read: %w: row 2 follows row 0", commands.ErrDamaged)
	}
	return l.Log.Read(ctx, after, maxRows, maxBytes)
}

func TestADamagedLogEndsTheReplica(t *testing.T) {
	c := newCluster(t)
	log := &damagedLog{Log: c.log.Peer()}
	r := c.start(c.config(log), 0)
	log.damaged.Store(true)
	<-r.Failed()
	require.ErrorIs(t, r.Err(), commands.ErrDamaged)
}

func TestAReportThatDisagreesEndsTheReplica(t *testing.T) {
	c := newCluster(t)
	cfg := c.config(c.log.Peer())
	cfg.GroupBytes = 1
	r := c.start(cfg, 0)
	for r.Applied() < statemachine.CheckpointInterval {
		propose(t, r, &commands.Tick{})
	}
	wrong := &commands.Checkpoint{At: statemachine.CheckpointInterval, Digest: 12345}
	_, _ = r.Propose(t.Context(), wrong)
	<-r.Failed()
	require.ErrorContains(t, r.Err(), "the state diverged")
}

func TestWhatWasNotSentInTimeWasNotWritten(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	var down atomic.Bool
	log.Before = func(_ context.Context, call string) error {
		if down.Load() {
			return fmt.Errorf("%w: no route", commands.ErrNotSent)
		}
		return nil
	}
	cfg := c.config(log)
	cfg.QueueTimeout = 50 * time.Millisecond
	r := c.start(cfg, 0)
	down.Store(true)
	_, err := r.Propose(t.Context(), create("a"))
	require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
	down.Store(false)
	require.Eventually(t, func() bool {
		d, err := r.Propose(t.Context(), create("b"))
		return err == nil && d.Results[0].Verdict == statemachine.Accepted
	}, patience, 10*time.Millisecond, "it recovers alone")
	_, ok := r.View().Lookup("a")
	require.False(t, ok)
}

func TestGivingUpOnARowInFlightSaysUnknown(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	started, hold := make(chan struct{}), make(chan struct{})
	var appends atomic.Int32
	log.Before = func(_ context.Context, call string) error {
		if call == "append" && appends.Add(1) == 2 {
			close(started)
			<-hold
		}
		return nil
	}
	r := c.start(c.config(log), 0)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := r.Propose(ctx, create("a"))
		answer <- err
	}()
	<-started
	queued, cancelQueued := context.WithCancel(t.Context())
	cancelQueued()
	_, err := r.Propose(queued, create("b"))
	require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err), "still in the queue: certainly not written")
	cancel()
	require.Equal(t, stream.CodeOutcomeUnknown, stream.CodeOf(<-answer))
	close(hold)
	require.Eventually(t, func() bool { _, ok := r.View().Lookup("a"); return ok }, patience, time.Millisecond)
	_, ok := r.View().Lookup("b")
	require.False(t, ok)
}

func TestTheQueueIsBounded(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	hold := make(chan struct{})
	var appends atomic.Int32
	log.Before = func(_ context.Context, call string) error {
		if call == "append" && appends.Add(1) > 1 {
			<-hold
		}
		return nil
	}
	cfg := c.config(log)
	cfg.QueueBytes = 1000
	r := c.start(cfg, 0)
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = r.Enqueue([]commands.Command{create(fmt.Sprint(i))}, func(replica.Decision, error) {})
	}
	close(hold)
	require.Equal(t, stream.CodeOverloaded, stream.CodeOf(err))
	require.LessOrEqual(t, r.Stats().QueueBytes, 1000)
}

func TestCloseAnswersEverything(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	var appends atomic.Int32
	log.Before = func(ctx context.Context, call string) error {
		if call == "append" && appends.Add(1) > 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	cfg := c.config(log)
	cfg.GroupBytes = 1
	r := c.start(cfg, 0)
	answers := make(chan error, 3)
	for i := range 3 {
		require.NoError(t, r.Enqueue([]commands.Command{create(fmt.Sprint(i))}, func(_ replica.Decision, err error) { answers <- err }))
	}
	r.Close()
	codes := map[stream.Code]int{}
	for range 3 {
		codes[stream.CodeOf(<-answers)]++
	}
	require.LessOrEqual(t, codes[stream.CodeOutcomeUnknown], 1)
	require.Equal(t, 3, codes[stream.CodeOutcomeUnknown]+codes[stream.CodeUnavailable])
	require.Error(t, r.Enqueue([]commands.Command{create("late")}, func(replica.Decision, error) {}))
}

func TestWildClocksMoveLogTimeOnlyForward(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	var database, own atomic.Int64
	database.Store(1_000_000)
	own.Store(1_000_000)
	log.Now = func() time.Time { return time.UnixMilli(database.Load()) }
	cfg := c.config(log)
	cfg.Now = func() time.Time { return time.UnixMilli(own.Load()) }
	cfg.QueueTimeout = time.Hour
	r := c.start(cfg, 0)
	for _, step := range []struct{ database, own, want int64 }{
		{1_001_000, 1_001_000, 1_001_000},
		{9_000_000, 1_002_000, 1_002_000}, // the database jumps ahead: the node's clock holds it back
		{1_003_000, 9_000_000, 1_003_000}, // the node jumps ahead: the database holds it back
		{500_000, 500_000, 1_003_000},     // both jump back: time stands
		{1_004_000, 1_004_000, 1_004_000},
	} {
		database.Store(step.database)
		own.Store(step.own)
		require.EqualValues(t, step.want, propose(t, r, &commands.Tick{}).Time)
	}
}
