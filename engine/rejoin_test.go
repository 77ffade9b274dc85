package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/engine"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/stream"
)

// moves takes an engine along when its node registers anew, as a process does.
type moves struct {
	cluster commands.ClusterID
	bucket  *blob.Bucket
	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex // guards ended, after which nothing begins
	ended   bool
	running sync.WaitGroup
	engine  atomic.Pointer[engine.Engine]
	latest  atomic.Uint64 // epoch
	turn    sync.Mutex
	done    atomic.Int64
}

func (m *moves) begin(e *engine.Engine) { m.engine.Store(e) }

func (m *moves) to(s replica.Start) {
	m.latest.Store(uint64(s.Epoch))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.running.Go(func() {
		m.turn.Lock()
		defer m.turn.Unlock()
		if m.latest.Load() != uint64(s.Epoch) {
			return // gone again meanwhile
		}
		identity := blobwal.Identity{Cluster: m.cluster, Node: uint32(s.Node), Epoch: uint64(s.Epoch), Incarnation: s.Incarnation}
		for blobwal.WriteMarker(m.ctx, m.bucket, identity) != nil && m.ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		if m.ctx.Err() == nil && m.engine.Load().Rejoin(m.ctx, identity) == nil {
			m.done.Add(1)
		}
	})
}

func (m *moves) end() {
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.cancel()
	m.running.Wait()
}

// depart has n say that another node is gone.
func (n *node) depart(t *testing.T, other *node) {
	t.Helper()
	node, epoch := other.replica.Node()
	_, err := n.replica.Propose(t.Context(), &commands.Depart{Node: node, Epoch: epoch})
	require.NoError(t, err)
}

// collectOrphans deletes what a node left in the bucket and no commit named.
func (w *world) collectOrphans(t *testing.T, by *node, gone uint32) {
	t.Helper()
	known := map[string]bool{}
	segments, _ := by.replica.View().Segments(0, 1<<20)
	for _, s := range segments {
		known[blobwal.Key(commands.ClusterID{1}, blobwal.SegmentID{Node: uint32(s.Node), Epoch: uint64(s.Epoch), Sequence: s.Sequence})] = true
	}
	list := w.bucket.List(nil)
	for {
		o, err := list.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if strings.Contains(o.Key, fmt.Sprintf("/wal/%08x/", gone)) && !known[o.Key] {
			require.NoError(t, w.bucket.Delete(t.Context(), o.Key))
		}
	}
}

// freezer stops a node at one point of its next append, and, as a frozen process
// does, every call to its log from then on, until it thaws.
type freezer struct {
	armed  atomic.Bool
	frozen chan struct{}
	thawed chan struct{}
	whole  bool // the process and not only this append
}

// at freezes the first caller after the freezer was armed.
func (f *freezer) at() {
	if f.armed.CompareAndSwap(true, false) {
		close(f.frozen)
		<-f.thawed
	}
}

// held holds others while the process is frozen.
func (f *freezer) held() {
	select {
	case <-f.frozen:
		if f.whole {
			<-f.thawed
		}
	default:
	}
}

// points are where a node may be frozen in an append: each sets the freezer up.
var points = map[string]func(f *freezer, log *freezable, c *engine.Config){
	"between the put and the commit": func(f *freezer, _ *freezable, c *engine.Config) { c.AfterPut = f.at },
	"before the insert":              func(f *freezer, log *freezable, _ *engine.Config) { log.before = f.at },
	"after the insert":               func(f *freezer, log *freezable, _ *engine.Config) { log.after = f.at },
	"before the answer":              func(f *freezer, _ *freezable, c *engine.Config) { c.AfterCommit = f.at },
}

// freezable is a log whose appends may freeze.
type freezable struct {
	replica.Log
	f             *freezer
	before, after func()
}

func (l *freezable) Append(ctx context.Context, in commands.Insert) (commands.Inserted, error) {
	l.f.held()
	l.before()
	at, err := l.Log.Append(context.WithoutCancel(ctx), in)
	l.after()
	return at, err
}

func (l *freezable) Read(ctx context.Context, after commands.Index, rows, bytes int) ([]commands.Row, error) {
	l.f.held()
	return l.Log.Read(context.WithoutCancel(ctx), after, rows, bytes)
}

func (l *freezable) Head(ctx context.Context) (commands.Position, error) {
	l.f.held()
	return l.Log.Head(context.WithoutCancel(ctx))
}

// TestAPausedNode: a node is frozen at some point of an append, taken for gone,
// and its object collected if no commit named it. Its client may retry through
// another node with the same producer sequence. Woken, the node acknowledges what
// happened: the records are there once.
func TestAPausedNode(t *testing.T) {
	for point, set := range points {
		for _, whole := range []bool{true, false} {
			for _, retried := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/whole=%v/retried=%v", point, whole, retried), func(t *testing.T) {
					testPausedNode(t, set, whole, retried)
				})
			}
		}
	}
}

func testPausedNode(t *testing.T, set func(*freezer, *freezable, *engine.Config), whole, retried bool) {
	w := newWorld(t)
	f := &freezer{frozen: make(chan struct{}), thawed: make(chan struct{}), whole: whole}
	log := &freezable{Log: w.log.Peer(), f: f, before: func() {}, after: func() {}}
	paused := w.startOn(log, func(c *engine.Config) { set(f, log, c) })
	other := w.start(nil)
	paused.create(t, "s", "text/plain", "first")
	request := &stream.AppendRequest{Records: records("x"), Producer: &stream.Producer{ID: "p"}}
	f.armed.Store(true)
	answer := make(chan stream.Appended, 1)
	go func() {
		a, err := paused.Append(t.Context(), "s", request)
		if err != nil {
			t.Errorf("the append on the node that was paused: %v", err)
		}
		answer <- a
	}()
	<-f.frozen
	number, _ := paused.replica.Node()
	other.depart(t, paused)
	w.collectOrphans(t, other, uint32(number))
	if retried {
		again, err := other.Append(t.Context(), "s", request)
		require.NoError(t, err)
		require.Equal(t, stream.Offset(1), again.First)
	}
	close(f.thawed)

	a := <-answer
	require.True(t, a.FirstKnown)
	require.Equal(t, stream.Offset(1), a.First)
	for i, n := range []*node{paused, other, paused} {
		request := &stream.AppendRequest{Records: records(fmt.Sprint(i)), Producer: &stream.Producer{ID: "p", Seq: uint64(i) + 1}}
		_, err := n.Append(t.Context(), "s", request)
		require.NoError(t, err)
	}
	for _, n := range []*node{paused, other} {
		require.Equal(t, []string{"first", "x", "0", "1", "2"}, n.read(t, "s", 0, 1<<20))
	}
	require.NoError(t, paused.replica.Err())
	require.NoError(t, paused.Storage())
	require.Eventually(t, func() bool { return paused.moves.done.Load() == 1 && !paused.Moving() }, patience, time.Millisecond)
}

// TestGoneAgainAndAgain: while clients append to a node it is taken for gone over
// and over, whatever it is about to do. What was acknowledged is there once, what
// was refused is not.
func TestGoneAgainAndAgain(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		w := newWorld(t)
		testGoneAgainAndAgain(t, w, func() replica.Log { return w.log.Peer() })
	})
	t.Run("postgres", func(t *testing.T) {
		database := sqllogtest.Postgres(t)
		testGoneAgainAndAgain(t, newWorld(t), func() replica.Log { return database.Open(t) })
	})
}

func testGoneAgainAndAgain(t *testing.T, w *world, open func() replica.Log) {
	const workers, departures = 6, 40
	n := w.startOn(open(), func(c *engine.Config) { c.Writer.Interval = time.Millisecond })
	other := w.startOn(open(), nil)
	n.create(t, "s", "text/plain")
	var mu sync.Mutex
	acknowledged, refused := map[string]stream.Offset{}, map[string]bool{}
	var over atomic.Bool
	var clients sync.WaitGroup
	for worker := range workers {
		clients.Go(func() {
			for i := 0; !over.Load(); i++ {
				body := fmt.Sprintf("%d-%d", worker, i)
				request := &stream.AppendRequest{Records: records(body)}
				if worker%2 == 0 { // and without a producer
					request.Producer = &stream.Producer{ID: fmt.Sprint(worker), Seq: uint64(i)}
				}
				a, err := n.Append(context.Background(), "s", request)
				mu.Lock()
				switch {
				case err == nil:
					acknowledged[body] = a.First
				case request.Producer != nil:
					i-- // the same sequence again
				case stream.CodeOf(err) != stream.CodeOutcomeUnknown:
					refused[body] = true
				}
				mu.Unlock()
			}
		})
	}
	for range departures {
		time.Sleep(3 * time.Millisecond)
		other.depart(t, n)
	}
	over.Store(true)
	clients.Wait()
	require.Eventually(t, func() bool { return n.moves.done.Load() > 0 }, patience, time.Millisecond, "the last move is in nobody's way")
	require.NoError(t, n.replica.Err())

	require.NoError(t, other.replica.Sync(t.Context()))
	there := map[string]int{}
	for from := stream.Offset(0); ; {
		bodies := other.read(t, "s", from, 1<<20)
		for _, body := range bodies {
			there[body]++
			if at, ok := acknowledged[body]; ok {
				require.Equal(t, from, at, body)
			}
			require.False(t, refused[body], "%s was refused and is there", body)
			from++
		}
		if len(bodies) == 0 {
			break
		}
	}
	for _, body := range slices.Sorted(maps.Keys(acknowledged)) {
		require.Equal(t, 1, there[body], body)
	}
	t.Logf("%d appends acknowledged, %d refused, %d moves", len(acknowledged), len(refused), n.moves.done.Load())
}

// gone is a node that another takes for gone, that cannot come back while its marker's
// turn is taken, and what an append to it is answered meanwhile.
func gone(t *testing.T) (n, other *node, answer chan error) {
	t.Helper()
	w := newWorld(t)
	n, other = w.start(nil), w.start(nil)
	n.create(t, "s", "text/plain")
	n.moves.turn.Lock() // the marker cannot be written
	other.depart(t, n)
	answer = make(chan error, 1)
	go func() {
		_, err := n.Append(t.Context(), "s", &stream.AppendRequest{Records: records("x")})
		answer <- err
	}()
	require.Eventually(t, n.Moving, patience, time.Millisecond)
	return n, other, answer
}

// TestAnEngineEndsWhileItsNodeIsGone: what came back, and what waits, is answered.
func TestAnEngineEndsWhileItsNodeIsGone(t *testing.T) {
	n, other, answer := gone(t)
	n.moves.cancel()
	n.moves.turn.Unlock()
	n.moves.end()
	n.stop()
	require.Equal(t, stream.CodeUnavailable, codeOf(t, <-answer))
	require.Empty(t, other.read(t, "s", 0, 1<<20))
}

// TestANodeThatEndsInsteadOfComingBack: what came back is answered at once, and not
// when its clients have given up.
func TestANodeThatEndsInsteadOfComingBack(t *testing.T) {
	n, other, answer := gone(t)
	n.replica.End(errors.New("the marker is another's"))
	require.Equal(t, stream.CodeUnavailable, codeOf(t, <-answer))
	require.Equal(t, stream.CodeUnavailable, codeOf(t, func() error {
		_, err := n.Append(t.Context(), "s", &stream.AppendRequest{Records: records("y")})
		return err
	}()))
	n.moves.cancel()
	n.moves.turn.Unlock()
	require.Empty(t, other.read(t, "s", 0, 1<<20))
}

// TestWhoeverLeftIsNotServed: an append whose client was told that its outcome is
// unknown is not stored again; the client may have asked another node since.
func TestWhoeverLeftIsNotServed(t *testing.T) {
	w := newWorld(t)
	f := &freezer{frozen: make(chan struct{}), thawed: make(chan struct{}), whole: true}
	log := &freezable{Log: w.log.Peer(), f: f, before: f.at, after: func() {}}
	n, other := w.startOn(log, nil), w.start(nil)
	n.create(t, "s", "text/plain")
	ctx, leave := context.WithCancel(t.Context())
	f.armed.Store(true)
	answer := make(chan error, 1)
	go func() {
		_, err := n.Append(ctx, "s", &stream.AppendRequest{Records: records("x")})
		answer <- err
	}()
	<-f.frozen
	leave()
	require.Equal(t, stream.CodeOutcomeUnknown, codeOf(t, <-answer))
	other.depart(t, n)
	other.append(t, "s", "x")
	close(f.thawed)
	n.append(t, "s", "y")
	require.Equal(t, []string{"x", "y"}, n.read(t, "s", 0, 1<<20))
	require.Zero(t, n.InFlight())
}

// TestAMoveIsBrokenOff while the log has not decided a commit: that one is still
// answered as the log decides, and nothing is taken any more.
func TestAMoveIsBrokenOff(t *testing.T) {
	w := newWorld(t)
	f := &freezer{frozen: make(chan struct{}), thawed: make(chan struct{})}
	log := &freezable{Log: w.log.Peer(), f: f, before: f.at, after: func() {}}
	n := w.startOn(log, nil)
	n.create(t, "s", "text/plain")
	f.armed.Store(true)
	answer := make(chan error, 1)
	go func() {
		_, err := n.Append(t.Context(), "s", &stream.AppendRequest{Records: records("x")})
		answer <- err
	}()
	<-f.frozen
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, n.Rejoin(ended, n.Identity()), context.Canceled)
	require.Error(t, n.Rejoin(t.Context(), n.Identity()))
	close(f.thawed)
	require.NoError(t, <-answer)
	_, err := n.Append(t.Context(), "s", &stream.AppendRequest{Records: records("y")})
	require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
	require.Equal(t, []string{"x"}, n.read(t, "s", 0, 1<<20))
}
