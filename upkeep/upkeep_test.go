package upkeep_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
	"github.com/picomq/picomq/upkeep"
)

func TestNothingIsDoneWhileThereIsNothingToDo(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	n.create(t, "stays", stream.Config{})
	before := n.Applied()
	w.pass(t, n, time.Minute)
	require.Equal(t, before, n.Applied())
	require.Zero(t, n.leases.Load(), "and the lease is left to others")
	for _, s := range n.Status() {
		require.Zero(t, s.Steps, s.Job)
		require.Empty(t, s.Error, s.Job)
	}
}

func TestIdleStreamsGoWithoutAnyRequest(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	n.create(t, "stays", stream.Config{})
	for i := range 100 {
		n.create(t, fmt.Sprint("idle/", i), stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: uint64(60 + i)}})
	}
	at := stream.Time(w.now().Add(time.Minute).UnixMilli())
	n.create(t, "at", stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresAt, At: at}})
	w.pass(t, n, 50*time.Second)
	require.EqualValues(t, 102, n.View().Counts().Streams, "nobody goes early")
	w.pass(t, n, 3*time.Minute)
	require.EqualValues(t, 1, n.View().Counts().Streams)
	_, ok := n.View().Lookup("stays")
	require.True(t, ok)
	last := n.Applied()
	w.pass(t, n, time.Minute)
	require.Equal(t, last, n.Applied(), "with nothing left to expire time may stand still")
}

func TestOneHolderWorksAndAnotherTakesOver(t *testing.T) {
	w := newWorld(t)
	first, second := w.start(t, 0), w.start(t, 0)
	first.create(t, "idle", stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 3600}})
	require.NoError(t, second.Sync(t.Context()))
	for range 10 {
		w.clock.Add(upkeep.TickEvery.Milliseconds())
		require.NoError(t, first.Step(t.Context(), w.now()))
		require.NoError(t, second.Step(t.Context(), w.now()))
	}
	require.EqualValues(t, 1, second.Stats().Rows, "only its registration")
	w.pass(t, second, time.Minute)
	require.Greater(t, second.Stats().Rows, uint64(1), "the lease of a holder that is gone runs out")
}

func TestJobsShareTheLeaseAndItsRefusal(t *testing.T) {
	w := newWorld(t)
	first, second := w.start(t, 0), w.start(t, 0)
	// Work for several jobs: expiry, and retention.
	config := stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 3600}, Retention: stream.Retention{Age: 3600}}
	first.create(t, "busy", config)
	require.NoError(t, second.Sync(t.Context()))
	require.NoError(t, first.Step(t.Context(), w.now()))
	require.NoError(t, second.Step(t.Context(), w.now()))
	require.EqualValues(t, 1, first.leases.Load())
	require.EqualValues(t, 1, second.leases.Load())
	w.clock.Add(1000)
	require.NoError(t, first.Step(t.Context(), w.now()))
	require.NoError(t, second.Step(t.Context(), w.now()))
	require.EqualValues(t, 1, first.leases.Load(), "it is still good")
	require.EqualValues(t, 1, second.leases.Load(), "it is still another's")
}

// TestWhatFailsIsToldOnce as it begins, however often it is tried, and as it ends.
func TestWhatFailsIsToldOnce(t *testing.T) {
	w := newWorld(t)
	var said bytes.Buffer
	n := w.start(t, 0, func(c *upkeep.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&said, nil))
		c.Retention = stream.Retention{Age: 1} // work for two jobs at each look
		c.SweepAfter, c.SweepEvery = time.Second, time.Second
	})
	n.create(t, "idle", stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 3600}})
	steps := func() {
		for range 100 {
			w.clock.Add(1000)
			_ = n.Step(t.Context(), w.now())
		}
	}
	count := func(part string) int { return strings.Count(said.String(), part) }

	n.failing.Store(true)
	steps()
	require.Equal(t, 1, count("level=WARN"), "for all jobs that have no lease: %s", &said)
	require.Equal(t, 1, count("its lease could not be asked for"))
	n.failing.Store(false)
	steps()
	require.Equal(t, 1, count("can ask for its lease again"))
	require.Zero(t, count("maintenance works again"), "no job failed")

	w.faults.SetPlan(func(op faultbucket.Op) (d faultbucket.Decision) {
		if op.Kind == faultbucket.List {
			d.Before = faultbucket.Fail(op)
		}
		return d
	})
	steps()
	require.Equal(t, 1, count("maintenance failed"))
	w.faults.SetPlan(nil)
	steps()
	require.Equal(t, 1, count("maintenance works again\" job=orphans"), &said)
}

func TestAJobThatFailsWaitsLongerAndLonger(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	n.create(t, "idle", stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 3600}})
	n.failing.Store(true)
	for range 300 {
		w.clock.Add(1000)
		_ = n.Step(t.Context(), w.now())
	}
	s := n.status(t, "expire")
	require.Contains(t, s.Error, "the database is away")
	require.EqualValues(t, 1, s.Backlog)
	require.True(t, s.Done.IsZero())
	// After 1, 2, 4, 8, 16, 32 and then every 60 seconds.
	require.EqualValues(t, 10, s.Failed)

	n.failing.Store(false)
	w.clock.Add(time.Minute.Milliseconds())
	require.NoError(t, n.Step(t.Context(), w.now()))
	s = n.status(t, "expire")
	require.Empty(t, s.Error)
	require.Equal(t, w.now(), s.Done)
	require.EqualValues(t, 1, s.Steps)
	n.failing.Store(true)
	w.clock.Add(time.Minute.Milliseconds())
	require.Error(t, n.Step(t.Context(), w.now()))
	w.clock.Add(1000)
	require.Error(t, n.Step(t.Context(), w.now()))
	require.EqualValues(t, 12, n.status(t, "expire").Failed, "the pause begins anew")
}

func TestRunWorksUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.log.Now = time.Now
		n := w.start(t, 0)
		n.create(t, "idle", stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 3600}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			n.Run(ctx)
			close(ended)
		}()
		time.Sleep(time.Minute)
		require.True(t, n.Leads())
		require.GreaterOrEqual(t, n.status(t, "expire").Steps, uint64(50))
		cancel()
		<-ended
		held, err := w.log.AcquireLease(t.Context(), "upkeep", commands.Holder{Node: 77, Epoch: 77}, time.Second)
		require.NoError(t, err)
		require.True(t, held, "it was given back")
		n.stop()
	})
}

func TestTheEndOfTheProcessIsNoFailure(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	n.create(t, "idle", stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 3600}})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopping"))
	require.NoError(t, n.Step(ctx, w.now()))
	require.Zero(t, n.status(t, "expire").Failed)
}

func TestWhatMaintenanceNeeds(t *testing.T) {
	_, err := upkeep.New(upkeep.Config{})
	require.ErrorContains(t, err, "required")
}

func TestExpiryAfterACrashAnywhere(t *testing.T) {
	prepare := func(t *testing.T, _ *world, n *node) {
		for i := range 3 {
			id := n.create(t, fmt.Sprint("idle/", i), stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 15}})
			n.commit(t, commands.Append{ID: id, Records: 1, Bytes: 7})
		}
		n.commit(t, commands.Append{ID: n.create(t, "stays", stream.Config{}), Records: 1, Bytes: 7})
	}
	check := func(t *testing.T, w *world, n *node, done bool) {
		requireObjects(t, w, n, done)
		_, ok := n.View().Lookup("stays")
		require.True(t, ok)
		if done {
			require.EqualValues(t, 1, n.View().Counts().Streams)
		}
	}
	crashes{prepare: prepare, check: check, steps: 14}.run(t)
}
