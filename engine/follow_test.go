package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/engine"
	"github.com/picomq/picomq/stream"
)

// follow reads a stream to its end as a live reader does.
func (n *node) follow(ctx context.Context, name stream.Name, id stream.ID) (out []string, err error) {
	var next stream.Offset
	for {
		c, err := n.Read(ctx, name, stream.ReadRequest{ID: id, From: stream.At(next), MaxBytes: 1000})
		if err != nil {
			return out, err
		}
		for i := range c.Runs {
			for j := range c.Runs[i].Len() {
				out = append(out, string(c.Runs[i].Body(j)))
			}
		}
		next = c.Next
		if c.AtEnd() {
			return out, nil
		}
		if c.UpToDate {
			if _, err := n.Wait(ctx, stream.WaitRequest{ID: id, After: next}); err != nil {
				return out, err
			}
		}
	}
}

func TestFollowersSeeEverythingAndTheEnd(t *testing.T) {
	n := newWorld(t).start(nil)
	id := n.create(t, "a", "text/plain").ID
	const readers, count = 20, 200
	var done sync.WaitGroup
	results := make([][]string, readers)
	for i := range readers {
		done.Go(func() {
			var err error
			results[i], err = n.follow(context.Background(), "a", id)
			require.NoError(t, err)
		})
	}
	var want []string
	for i := range count {
		n.append(t, "a", fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
	}
	_, err := n.Append(t.Context(), "a", &stream.AppendRequest{Records: records("last"), Close: true})
	require.NoError(t, err)
	done.Wait()
	for _, got := range results {
		require.Equal(t, append(want, "last"), got)
	}
	require.Zero(t, n.Waiting())
}

func TestWaitersEndWithTheStreamTheCallerAndTheNode(t *testing.T) {
	n := newWorld(t).start(nil)
	id := n.create(t, "a", "text/plain").ID
	wait := func(ctx context.Context) <-chan error {
		answer := make(chan error, 1)
		go func() {
			_, err := n.Wait(ctx, stream.WaitRequest{ID: id, After: 0})
			answer <- err
		}()
		return answer
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := wait(ctx)
	deleted := wait(t.Context())
	require.Eventually(t, func() bool { return n.Waiting() == 2 }, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	require.NoError(t, n.Delete(t.Context(), "a"))
	require.Equal(t, stream.CodeNotFound, codeOf(t, <-deleted))
	require.Zero(t, n.Waiting())

	id = n.create(t, "b", "text/plain").ID
	stopped := wait(t.Context())
	require.Eventually(t, func() bool { return n.Waiting() == 1 }, patience, time.Millisecond)
	n.stop()
	require.Equal(t, stream.CodeUnavailable, codeOf(t, <-stopped))
}

func TestAWaitWhoseTimeIsOverTellsHowTheStreamIs(t *testing.T) {
	n := newWorld(t).start(nil)
	id := n.create(t, "a", "text/plain", "0", "1").ID
	over := make(chan struct{})
	close(over)
	i, err := n.Wait(t.Context(), stream.WaitRequest{ID: id, After: 2, Until: over})
	require.NoError(t, err)
	require.Equal(t, stream.Offset(2), i.Tail)
	i, err = n.Wait(t.Context(), stream.WaitRequest{ID: id, After: 1, Until: over})
	require.NoError(t, err)
	require.Equal(t, stream.Offset(2), i.Tail)
	require.Zero(t, n.Waiting())
}

func idle(ttl uint64) stream.Config {
	return stream.Config{ContentType: "text/plain", Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: ttl}}
}

func TestAStreamExpiresWhenNobodyUsesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(nil)
		_, err := n.Create(t.Context(), "a", &stream.CreateRequest{Config: idle(10), Records: records("x")})
		require.NoError(t, err)
		w.later(9 * time.Second)
		require.Equal(t, []string{"x"}, n.read(t, "a", 0, 100), "close to the deadline a read waits for its touch")
		w.later(9 * time.Second)
		_, err = n.Head(t.Context(), "a")
		require.NoError(t, err, "the read restarted the window")
		w.later(2 * time.Second)
		_, err = n.Head(t.Context(), "a")
		require.Equal(t, stream.CodeNotFound, codeOf(t, err), "a head did not")
		_, err = n.Append(t.Context(), "a", &stream.AppendRequest{Records: records("y")})
		require.Equal(t, stream.CodeNotFound, codeOf(t, err))
		require.True(t, n.create(t, "a", "application/json").New)
	})
}

func TestTouchesAreFlushedWithinAnEighth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(nil)
		_, err := n.Create(t.Context(), "a", &stream.CreateRequest{Config: idle(2), Records: records("x")})
		require.NoError(t, err)
		before, _ := n.replica.View().Lookup("a")
		w.later(400 * time.Millisecond)
		n.read(t, "a", 0, 100)
		require.Eventually(t, func() bool {
			after, _ := n.replica.View().Lookup("a")
			return after.Touched > before.Touched
		}, patience, 5*time.Millisecond)
	})
}

func TestTouchesThatWaitAreWrittenAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(nil)
		_, err := n.Create(t.Context(), "a", &stream.CreateRequest{Config: idle(80), Records: records("x")})
		require.NoError(t, err)
		w.later(25 * time.Second)
		n.append(t, "a", "y")
		w.later(20 * time.Second)
		n.read(t, "a", 0, 100) // within its window: the touch waits up to 10 s
		n.stop()
		again := w.start(nil)
		st, ok := again.replica.View().Lookup("a")
		require.True(t, ok)
		require.GreaterOrEqual(t, st.Touched, int64(45_000))
	})
}

func TestAClockAheadOfTheLogsDoesNotFloodIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := w.log.Peer()
		log.Now = func() time.Time { return w.now().Add(-20 * time.Second) } // the database's clock
		n := w.startOn(log, nil)
		made, err := n.Create(t.Context(), "a", &stream.CreateRequest{Config: stream.Config{
			ContentType: "text/plain", Expiry: stream.Expiry{Kind: stream.ExpiresAt, At: stream.Time(w.now().Add(-10 * time.Second).UnixMilli())},
		}})
		require.NoError(t, err)
		before := n.replica.Stats().Rows
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err = n.Wait(ctx, stream.WaitRequest{ID: made.ID})
		require.ErrorIs(t, err, context.DeadlineExceeded, "by the log's time it is not due")
		for range 20 {
			_, err = n.Head(t.Context(), "a")
			require.NoError(t, err)
		}
		require.LessOrEqual(t, n.replica.Stats().Rows-before, uint64(4))
		page, err := n.List(t.Context(), stream.ListRequest{Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Streams, 1)
	})
}

func TestAnHourWithoutTheLogExpiresNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(nil)
		_, err := n.Create(t.Context(), "a", &stream.CreateRequest{Config: idle(60)})
		require.NoError(t, err)
		w.later(time.Hour) // no entry in all that time: it counts as 30 s
		_, err = n.Head(t.Context(), "a")
		require.NoError(t, err)
		w.later(time.Hour)
		_, err = n.Append(t.Context(), "a", &stream.AppendRequest{Records: records("x")})
		require.NoError(t, err)
	})
}

func TestAWaitingReaderKeepsAStreamAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(nil)
		made, err := n.Create(t.Context(), "a", &stream.CreateRequest{Config: idle(1)})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		_, err = n.Wait(ctx, stream.WaitRequest{ID: made.ID})
		require.ErrorIs(t, err, context.DeadlineExceeded, "it waited two and a half windows")
		_, err = n.Head(t.Context(), "a")
		require.NoError(t, err)
	})
}

// Short waits, one after the other, are a reader that waits for long.
func TestAReaderWhoseWaitsAreShortKeepsAStreamAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newWorld(t).start(nil)
		made, err := n.Create(t.Context(), "a", &stream.CreateRequest{Config: idle(1)})
		require.NoError(t, err)
		for range 60 {
			over := make(chan struct{})
			timer := time.AfterFunc(30*time.Millisecond, func() { close(over) })
			_, err = n.Wait(t.Context(), stream.WaitRequest{ID: made.ID, Until: over})
			require.NoError(t, err)
			timer.Stop()
		}
		_, err = n.Head(t.Context(), "a")
		require.NoError(t, err)
	})
}

func TestAFixedDeadlineEndsWaitersToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(nil)
		made, err := n.Create(t.Context(), "a", &stream.CreateRequest{Config: stream.Config{
			ContentType: "text/plain", Expiry: stream.Expiry{Kind: stream.ExpiresAt, At: stream.Time(w.now().Add(300 * time.Millisecond).UnixMilli())},
		}})
		require.NoError(t, err)
		n.read(t, "a", 0, 100)
		_, err = n.Wait(t.Context(), stream.WaitRequest{ID: made.ID})
		require.Equal(t, stream.CodeNotFound, codeOf(t, err))
	})
}

func TestStreamsThatExpireAtOnce(t *testing.T) {
	n := newWorld(t).start(nil)
	for name, expiry := range map[stream.Name]stream.Expiry{
		"ttl": {Kind: stream.ExpiresIdle}, "at": {Kind: stream.ExpiresAt, At: 1},
	} {
		c, err := n.Create(t.Context(), name, &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain", Expiry: expiry}, Records: records("x")})
		require.NoError(t, err)
		require.True(t, c.New)
		_, err = n.Read(t.Context(), name, stream.ReadRequest{MaxBytes: 10})
		require.Equal(t, stream.CodeNotFound, codeOf(t, err))
	}
}

func TestTwoEnginesOnOneLog(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(nil), w.start(nil)
	id := a.create(t, "s", "text/plain").ID
	var done sync.WaitGroup
	var got []string
	done.Go(func() {
		var err error
		got, err = b.follow(context.Background(), "s", id)
		require.NoError(t, err)
	})
	var want []string
	for i := range 40 {
		n := []*node{a, b}[i%2]
		n.append(t, "s", fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
		require.Equal(t, want, []*node{b, a}[i%2].read(t, "s", 0, 1000), "what one acknowledged the other reads")
	}
	_, err := a.Append(t.Context(), "s", &stream.AppendRequest{Close: true})
	require.NoError(t, err)
	done.Wait()
	require.Equal(t, want, got)
	require.NoError(t, b.Delete(t.Context(), "s"))
	_, err = a.Append(t.Context(), "s", &stream.AppendRequest{Records: records("x")})
	require.Equal(t, stream.CodeNotFound, codeOf(t, err), "a stale view does not make an append succeed")
	b.create(t, "s", "text/plain")
	require.EqualValues(t, 0, a.append(t, "s", "again").First, "the name is resolved anew")
}

// TestAStaleTypeRefusesNothing: the name is a text stream's by now, and only this
// node has not heard of it.
func TestAStaleTypeRefusesNothing(t *testing.T) {
	w := newWorld(t)
	var behind atomic.Bool
	log := w.log.Peer()
	log.Before = func(_ context.Context, call string) error {
		switch {
		case call == "head":
			behind.Store(false)
		case call == "read" && behind.Load():
			return errors.New("no answer")
		}
		return nil
	}
	a, b := w.startOn(log, nil), w.start(nil)
	a.create(t, "s", "application/json", "1")
	require.Equal(t, []string{"1"}, b.read(t, "s", 0, 100))
	behind.Store(true)
	require.NoError(t, b.Delete(t.Context(), "s"))
	b.create(t, "s", "text/plain")
	require.EqualValues(t, 0, a.append(t, "s", "no JSON").First)
}

// TestAWaitOnAStaleViewIsNotToldThatItsStreamIsGone: it may not have come to the
// stream yet.
func TestAWaitOnAStaleViewIsNotToldThatItsStreamIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var behind atomic.Bool
		log := w.log.Peer()
		log.Before = func(context.Context, string) error {
			if behind.Load() {
				return errors.New("no answer")
			}
			return nil
		}
		a, b := w.startOn(log, func(c *engine.Config) { c.SyncTimeout = 50 * time.Millisecond }), w.start(nil)
		require.NoError(t, a.replica.Sync(t.Context()))
		behind.Store(true)
		made := b.create(t, "s", "text/plain", "x")
		_, err := a.Wait(t.Context(), stream.WaitRequest{ID: made.ID})
		require.Equal(t, stream.CodeUnavailable, codeOf(t, err))
		behind.Store(false)
		info, err := a.Wait(t.Context(), stream.WaitRequest{ID: made.ID})
		require.NoError(t, err)
		require.EqualValues(t, 1, info.Tail)

		local := w.start(func(c *engine.Config) { c.LocalReads = true })
		for i := range 20 {
			made := b.create(t, stream.Name(fmt.Sprint("t", i)), "text/plain", "x")
			_, err := local.Wait(t.Context(), stream.WaitRequest{ID: made.ID})
			require.NoError(t, err)
		}
	})
}

// TestADeleteByAStaleViewFollowsTheName: while the log cannot be asked the view may
// know an older stream of the name. What the log decides about that one is no answer.
func TestADeleteByAStaleViewFollowsTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var behind atomic.Bool
		log := w.log.Peer()
		log.Before = func(_ context.Context, call string) error {
			switch {
			case call == "append":
				behind.Store(false)
			case behind.Load():
				return errors.New("no answer")
			}
			return nil
		}
		a, b := w.startOn(log, func(c *engine.Config) { c.SyncTimeout = 50 * time.Millisecond }), w.start(nil)
		for _, act := range []func() error{
			func() error { _, err := a.Trim(t.Context(), "s", 1); return err },
			func() error { return a.Delete(t.Context(), "s") },
		} {
			_ = b.Delete(t.Context(), "s")
			b.create(t, "s", "text/plain", "old")
			require.Equal(t, []string{"old"}, a.read(t, "s", 0, 100))
			behind.Store(true)
			require.NoError(t, b.Delete(t.Context(), "s"))
			b.create(t, "s", "text/plain", "new")
			require.NoError(t, act())
		}
		_, err := b.Head(t.Context(), "s")
		require.Equal(t, stream.CodeNotFound, codeOf(t, err))
	})
}

func TestLocalReadsCatchUpForOffsetsAhead(t *testing.T) {
	w := newWorld(t)
	a := w.start(nil)
	b := w.start(func(c *engine.Config) { c.LocalReads = true })
	a.create(t, "s", "text/plain", "0")
	require.NoError(t, b.replica.Sync(t.Context()))
	for i := range 20 {
		next := a.append(t, "s", fmt.Sprint(i+1)).Next
		c, err := b.Read(t.Context(), "s", stream.ReadRequest{From: stream.At(next), MaxBytes: 10})
		require.NoError(t, err)
		require.Equal(t, next, c.Next)
	}
}
