package upkeep_test

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gocloud.dev/blob/memblob"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/stream"
	"github.com/picomq/picomq/upkeep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a log with a clock that tests move.
type world struct {
	log   *sqllogtest.Memory
	clock atomic.Int64
}

func newWorld() *world {
	w := &world{log: sqllogtest.NewMemory()}
	w.clock.Store(1_700_000_000_000)
	w.log.Now = w.now
	return w
}

func (w *world) now() time.Time { return time.UnixMilli(w.clock.Load()) }

func (w *world) start(t *testing.T) (*replica.Replica, *upkeep.Upkeep) {
	t.Helper()
	bucket := memblob.OpenBucket(nil)
	quiet := slog.New(slog.DiscardHandler)
	log := w.log.Peer()
	r, err := replica.Open(t.Context(), replica.Config{Log: log, Bucket: bucket, Logger: quiet, Now: w.now, Poll: 10 * time.Millisecond})
	require.NoError(t, err)
	self := commands.RegisterNode{Cluster: commands.ClusterID{1}, Level: commands.Level}
	_, _ = rand.Read(self.Incarnation[:])
	_, _, err = r.Register(t.Context(), self)
	require.NoError(t, err)
	t.Cleanup(func() {
		r.Close()
		require.NoError(t, bucket.Close())
	})
	return r, upkeep.New(r, log, quiet)
}

func create(t *testing.T, r *replica.Replica, name string, expiry stream.Expiry) {
	t.Helper()
	_, err := r.Propose(t.Context(), &commands.Create{Name: stream.Name(name), Config: stream.Config{ContentType: "text/plain", Expiry: expiry}})
	require.NoError(t, err)
}

// pass lets time go by in steps of a sweep and works at each.
func (w *world) pass(t *testing.T, u *upkeep.Upkeep, d time.Duration) {
	t.Helper()
	for end := w.now().Add(d); w.now().Before(end); {
		w.clock.Add(upkeep.SweepEvery.Milliseconds())
		require.NoError(t, u.Step(t.Context(), w.now()))
	}
}

func TestNothingIsWrittenWhileNothingCanExpire(t *testing.T) {
	w := newWorld()
	r, u := w.start(t)
	create(t, r, "stays", stream.Expiry{})
	before := r.Applied()
	w.pass(t, u, time.Minute)
	require.Equal(t, before, r.Applied())
}

func TestIdleStreamsGoWithoutAnyRequest(t *testing.T) {
	w := newWorld()
	r, u := w.start(t)
	create(t, r, "stays", stream.Expiry{})
	for i := range 100 {
		create(t, r, fmt.Sprint("idle/", i), stream.Expiry{Kind: stream.ExpiresIdle, TTL: uint64(60 + i)})
	}
	create(t, r, "at", stream.Expiry{Kind: stream.ExpiresAt, At: stream.Time(w.now().Add(time.Minute).UnixMilli())})
	w.pass(t, u, 50*time.Second)
	require.EqualValues(t, 102, r.View().Counts().Streams, "nobody goes early")
	w.pass(t, u, 3*time.Minute)
	require.EqualValues(t, 1, r.View().Counts().Streams)
	_, ok := r.View().Lookup("stays")
	require.True(t, ok)
	at := r.Applied()
	w.pass(t, u, time.Minute)
	require.Equal(t, at, r.Applied(), "with nothing left to expire time may stand still")
}

func TestOneHolderWorksAndAnotherTakesOver(t *testing.T) {
	w := newWorld()
	a, first := w.start(t)
	b, second := w.start(t)
	create(t, a, "idle", stream.Expiry{Kind: stream.ExpiresIdle, TTL: 3600})
	require.NoError(t, b.Sync(t.Context()))
	for range 10 {
		w.clock.Add(upkeep.SweepEvery.Milliseconds())
		require.NoError(t, first.Step(t.Context(), w.now()))
		require.NoError(t, second.Step(t.Context(), w.now()))
	}
	require.EqualValues(t, 1, b.Stats().Rows, "only its registration")
	w.pass(t, second, time.Minute)
	require.Greater(t, b.Stats().Rows, uint64(1), "the lease of a holder that is gone runs out")
}
