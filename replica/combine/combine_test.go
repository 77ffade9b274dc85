package combine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica/combine"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func insert(node commands.NodeID, seq uint64) commands.Insert { return insertAt(7, node, seq) }

func insertAt(clock stream.Time, node commands.NodeID, seq uint64) commands.Insert {
	o := commands.Origin{Node: node, Epoch: 1, Seq: seq}
	payload := commands.Payload{Clock: clock, Proposals: []commands.Proposal{{Origin: o, Commands: []commands.Command{&commands.Tick{}}}}}
	return commands.Insert{Origin: o, Payload: payload.Encode(), Summary: payload.Summary()}
}

// gate is a log whose appends wait for the test.
type gate struct {
	*sqllogtest.Memory
	entered chan commands.Insert
	open    chan struct{}
}

func newGate() *gate {
	return &gate{Memory: sqllogtest.NewMemory(), entered: make(chan commands.Insert, 100), open: make(chan struct{}, 100)}
}

func (g *gate) Append(ctx context.Context, in commands.Insert) (commands.Inserted, error) {
	g.entered <- in
	<-g.open
	return g.Memory.Append(ctx, in)
}

type answer struct {
	row commands.Row
	err error
}

// ask inserts on a goroutine.
func ask(c *combine.Combiner, in commands.Insert) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		row, err := c.Insert(context.Background(), in)
		answers <- answer{row, err}
	}()
	return answers
}

// pile starts an insert that the gate holds, and others that wait behind it.
func pile(t *testing.T, g *gate, c *combine.Combiner, others ...commands.Insert) []<-chan answer {
	t.Helper()
	first := ask(c, insert(99, 1))
	<-g.entered
	list := []<-chan answer{first}
	for _, in := range others {
		list = append(list, ask(c, in))
	}
	require.Eventually(t, func() bool { return c.Waiting() == len(others) }, 30*time.Second, time.Millisecond)
	for range 100 {
		g.open <- struct{}{}
	}
	return list
}

func TestWhatWaitsTogetherSharesARow(t *testing.T) {
	g := newGate()
	c := combine.New(g)
	defer c.Close()
	ins := []commands.Insert{insertAt(7, 1, 5), insertAt(9, 2, 6), insertAt(8, 3, 7)}
	answers := pile(t, g, c, ins...)
	first := <-answers[0]
	require.NoError(t, first.err)
	var rows []commands.Row
	for i, in := range ins {
		a := <-answers[i+1]
		require.NoError(t, a.err)
		rows = append(rows, a.row)
		at, digest, found, err := g.FindOrigin(t.Context(), in.Origin, 0)
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, a.row.Position(), at.Position)
		assert.Equal(t, commands.PayloadDigest(in.Payload), digest, "each finds what it asked for")
	}
	assert.Equal(t, first.row.Index+1, rows[0].Index)
	assert.Equal(t, rows[0], rows[1])
	assert.Equal(t, rows[0], rows[2])
	payload, err := commands.DecodePayload(rows[0].Payload)
	require.NoError(t, err)
	assert.Len(t, payload.Proposals, 3)
	assert.EqualValues(t, 9, payload.Clock, "the latest")
}

// Of several in one row, only those are refused that are at fault.
func TestNobodyIsRefusedForAnother(t *testing.T) {
	g := newGate()
	g.open <- struct{}{}
	known := insert(1, 5)
	_, err := g.Append(t.Context(), known)
	require.NoError(t, err)
	<-g.entered
	c := combine.New(g)
	defer c.Close()
	astray := insert(2, 6)
	astray.Applied = commands.Position{Index: 1, Row: 77}
	unreadable := commands.Insert{Origin: commands.Origin{Node: 4, Epoch: 1, Seq: 1}, Payload: []byte("?")}
	answers := pile(t, g, c, known, astray, insert(3, 7), unreadable)
	require.NoError(t, (<-answers[0]).err)
	require.ErrorIs(t, (<-answers[1]).err, commands.ErrDuplicateOrigin)
	require.ErrorIs(t, (<-answers[2]).err, commands.ErrLostTail)
	require.NoError(t, (<-answers[3]).err)
	<-answers[4] // whatever the log says of it
}

func TestAskingTwiceIsADuplicate(t *testing.T) {
	g := newGate()
	c := combine.New(g)
	defer c.Close()
	answers := pile(t, g, c, insert(1, 5), insert(1, 5))
	require.NoError(t, (<-answers[0]).err)
	one, other := <-answers[1], <-answers[2]
	if one.err != nil {
		one, other = other, one
	}
	require.NoError(t, one.err)
	require.ErrorIs(t, other.err, commands.ErrDuplicateOrigin)
}

func TestWhoGivesUpIsToldWhetherItWasBegun(t *testing.T) {
	g := newGate()
	c := combine.New(g)
	begun, cancelBegun := context.WithCancel(t.Context())
	waiting, cancelWaiting := context.WithCancel(t.Context())
	results := make(chan error, 2)
	go func() {
		_, err := c.Insert(begun, insert(1, 1))
		results <- err
	}()
	<-g.entered
	cancelBegun()
	require.ErrorIs(t, <-results, commands.ErrUnknown)
	go func() {
		_, err := c.Insert(waiting, insert(2, 1))
		results <- err
	}()
	require.Eventually(t, func() bool { return c.Waiting() == 1 }, 30*time.Second, time.Millisecond)
	cancelWaiting()
	require.ErrorIs(t, <-results, commands.ErrNotSent)
	g.open <- struct{}{}
	c.Close()
	_, err := c.Insert(t.Context(), insert(3, 1))
	require.ErrorIs(t, err, commands.ErrNotSent, "it is closed")
	_, _, found, err := g.FindOrigin(t.Context(), insert(1, 1).Origin, 0)
	require.NoError(t, err)
	require.True(t, found, "what was begun goes on")
}

// remote is a transport into other combiners of the process.
type remote struct {
	nodes map[commands.NodeID]*combine.Combiner
	fail  atomic.Pointer[error]
	asked atomic.Int64
}

func (r *remote) Insert(ctx context.Context, by commands.Holder, in commands.Insert) (commands.Row, error) {
	r.asked.Add(1)
	if err := r.fail.Load(); err != nil {
		return commands.Row{}, *err
	}
	return r.nodes[by.Node].Insert(ctx, in)
}

func holder(node commands.NodeID) commands.Holder { return commands.Holder{Node: node, Epoch: 1} }

func TestTheRouterAsksWhoHasTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := sqllogtest.NewMemory()
		local, other := combine.New(log), combine.New(log)
		defer local.Close()
		defer other.Close()
		transport := &remote{nodes: map[commands.NodeID]*combine.Combiner{2: other}}
		r := combine.NewRouter(local, transport, combine.RouterConfig{})
		_, err := r.Insert(t.Context(), insert(1, 1))
		require.ErrorIs(t, err, commands.ErrNotSent, "nobody is known")

		r.Learn(holder(1), holder(1), time.Now())
		_, err = r.Insert(t.Context(), insert(1, 1))
		require.NoError(t, err)
		require.Zero(t, transport.asked.Load())

		r.Learn(holder(1), holder(2), time.Now())
		_, err = r.Insert(t.Context(), insert(1, 2))
		require.NoError(t, err)
		require.EqualValues(t, 1, transport.asked.Load())

		lost := fmt.Errorf("%w: the answer was lost", commands.ErrUnknown)
		transport.fail.Store(&lost)
		_, err = r.Insert(t.Context(), insert(1, 3))
		require.ErrorIs(t, err, commands.ErrUnknown)
		_, err = r.Insert(t.Context(), insert(1, 4))
		require.ErrorIs(t, err, commands.ErrNotSent, "it is left alone for a while")
		require.EqualValues(t, 2, transport.asked.Load())

		refused := errors.New("too large")
		transport.fail.Store(&refused)
		r.Learn(holder(1), holder(3), time.Now()) // another has the lease now
		_, err = r.Insert(t.Context(), insert(1, 5))
		require.ErrorIs(t, err, refused)
		r.Learn(holder(1), holder(3), time.Now().Add(-time.Minute))
		_, err = r.Insert(t.Context(), insert(1, 6))
		require.ErrorIs(t, err, commands.ErrNotSent, "what is known is too old")
	})
}

// What somebody must put right is a warning; that a node leaves is nothing.
func TestWhyNobodyInsertsIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			err  error
			says string
		}{
			{commands.ErrNotSent, "level=INFO"},
			{fmt.Errorf("%w: %w", commands.ErrNotSent, combine.ErrGone), "level=DEBUG"},
			{fmt.Errorf("%w: %w", combine.ErrRefused, commands.ErrNotSent), "level=WARN"},
		} {
			local := combine.New(sqllogtest.NewMemory())
			transport, said := &remote{}, &bytes.Buffer{}
			transport.fail.Store(&test.err)
			r := combine.NewRouter(local, transport, combine.RouterConfig{
				Logger: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			r.Learn(holder(1), holder(2), time.Now())
			_, err := r.Insert(t.Context(), insert(1, 1))
			require.ErrorIs(t, err, commands.ErrNotSent)
			require.Contains(t, said.String(), test.says)
			require.Contains(t, said.String(), test.err.Error())
			local.Close()
		}
	})
}

// A node that never answers, though it renews its lease, costs less and less.
func TestWhoNeverAnswersIsAskedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := sqllogtest.NewMemory()
		local, other := combine.New(log), combine.New(log)
		defer local.Close()
		defer other.Close()
		transport := &remote{nodes: map[commands.NodeID]*combine.Combiner{2: other}}
		now, observed := time.Unix(1e9, 0), 0
		r := combine.NewRouter(local, transport, combine.RouterConfig{Now: func() time.Time { return now }, Observe: func(time.Duration) { observed++ }})
		seq := uint64(0)
		minutes := func(n int) {
			for range n * 60 {
				seq++
				r.Learn(holder(1), holder(2), now)
				_, _ = r.Insert(t.Context(), insert(1, seq))
				now = now.Add(time.Second)
			}
		}
		lost := fmt.Errorf("%w: the answer was lost", commands.ErrUnknown)
		transport.fail.Store(&lost)
		minutes(10)
		first := transport.asked.Load()
		require.Less(t, first, int64(20))
		require.Equal(t, combine.RouterStats{Alone: 600}, r.Stats())
		require.EqualValues(t, first, observed)
		transport.fail.Store(nil)
		minutes(2)
		require.Greater(t, transport.asked.Load(), first+60, "it is back")
		require.Equal(t, uint64(720), r.Stats().ByOthers+r.Stats().Alone)
	})
}

func TestWhatIsInsertedIsCounted(t *testing.T) {
	g := newGate()
	c := combine.New(g)
	defer c.Close()
	answers := pile(t, g, c, insert(1, 1), insert(2, 1))
	for _, a := range answers {
		require.NoError(t, (<-a).err)
	}
	_, err := c.InsertForOther(t.Context(), insert(3, 1))
	require.NoError(t, err)
	_, err = c.InsertForOther(t.Context(), insert(3, 1))
	require.Error(t, err)
	require.Equal(t, combine.Stats{Rows: 3, Parts: 4, Others: 1}, c.Stats())
}

func TestOneRouterHasTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := sqllogtest.NewMemory()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		c := combine.New(log)
		defer c.Close()
		r := combine.NewRouter(c, &remote{}, combine.RouterConfig{})
		go func() {
			defer close(done)
			r.Keep(ctx, log, func() commands.Holder { return commands.Holder{Node: 1, Epoch: 1} })
		}()
		require.Eventually(t, func() bool {
			_, err := r.Insert(ctx, insert(1, uint64(time.Now().UnixNano())))
			return err == nil
		}, 30*time.Second, time.Millisecond)
		by, held, err := log.LeaseHolder(t.Context(), combine.LeaseName)
		require.NoError(t, err)
		require.True(t, held)
		require.EqualValues(t, 1, by.Node)
		cancel()
		<-done
		_, held, err = log.LeaseHolder(t.Context(), combine.LeaseName)
		require.NoError(t, err)
		require.False(t, held, "it is given up")
	})
}
