package engine_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/engine"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what must end soon on a machine that has little else to do. A
// test of what takes time runs in a bubble, where nothing is late however busy the
// machine is.
const patience = time.Minute

// world is a log and a bucket that engines come and go on.
type world struct {
	t      testing.TB
	log    *sqllogtest.Memory
	bucket *blob.Bucket
	faults *faultbucket.Faults
	clock  atomic.Int64 // added to the system's clock, in ms
}

func newWorld(t testing.TB) *world {
	bucket, faults := faultbucket.Wrap(memblob.OpenBucket(nil), nil)
	w := &world{t: t, log: sqllogtest.NewMemory(), bucket: bucket, faults: faults}
	w.log.Now = w.now
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	return w
}

func (w *world) now() time.Time {
	return time.Now().Add(time.Duration(w.clock.Load()) * time.Millisecond)
}

// later moves every clock.
func (w *world) later(d time.Duration) { w.clock.Add(d.Milliseconds()) }

// holdPuts holds every put from now on until the channel is closed.
func (w *world) holdPuts() chan struct{} {
	hold := make(chan struct{})
	w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
		if op.Kind == faultbucket.Put {
			<-hold
		}
		return faultbucket.Decision{}
	})
	return hold
}

// node is one engine and what it stands on.
type node struct {
	*engine.Engine
	replica *replica.Replica
	moves   *moves
	stop    func()
}

func (w *world) start(adjust func(*engine.Config)) *node {
	w.t.Helper()
	return w.startOn(w.log.Peer(), adjust)
}

func (w *world) startOn(log replica.Log, adjust func(*engine.Config)) *node {
	w.t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	hub := engine.NewHub()
	moves := &moves{cluster: commands.ClusterID{1}, bucket: w.bucket}
	moves.ctx, moves.cancel = context.WithCancel(context.Background())
	r, err := replica.Open(w.t.Context(), replica.Config{
		Log: log, Bucket: w.bucket, Logger: quiet, Now: w.now, Published: hub.Publish, Poll: 20 * time.Millisecond, QueueTimeout: patience,
		CallTimeout: patience, Rejoined: moves.to,
	})
	require.NoError(w.t, err)
	self := commands.RegisterNode{Cluster: commands.ClusterID{1}, Level: commands.Level}
	_, _ = rand.Read(self.Incarnation[:])
	id, epoch, err := r.Register(w.t.Context(), self)
	require.NoError(w.t, err)
	cache, err := blockcache.New(blockcache.Config{Bucket: w.bucket, Cluster: self.Cluster, TailBytes: 1 << 20, BlockBytes: 4 << 20, Logger: quiet})
	require.NoError(w.t, err)
	cfg := engine.Config{
		Replica: r, Hub: hub, Cache: cache, Logger: quiet, Now: w.now, AppendTimeout: 3 * patience, SyncTimeout: patience,
		Writer: blobwal.WriterConfig{Bucket: w.bucket, PutTimeout: patience, Deadline: patience, Identity: blobwal.Identity{
			Cluster: self.Cluster, Node: uint32(id), Epoch: uint64(epoch), Incarnation: self.Incarnation,
		}},
	}
	if adjust != nil {
		adjust(&cfg)
	}
	e, err := engine.New(cfg)
	require.NoError(w.t, err)
	moves.begin(e)
	n := &node{Engine: e, replica: r, moves: moves}
	n.stop = sync.OnceFunc(func() {
		moves.end()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = e.Close(ctx)
		r.Close()
		cache.Close()
	})
	w.t.Cleanup(n.stop)
	return n
}

func records(bodies ...string) []stream.Record {
	out := make([]stream.Record, len(bodies))
	for i, b := range bodies {
		out[i].Body = []byte(b)
	}
	return out
}

func (n *node) create(t testing.TB, name stream.Name, contentType string, bodies ...string) stream.Created {
	t.Helper()
	c, err := n.Create(t.Context(), name, &stream.CreateRequest{Config: stream.Config{ContentType: contentType}, Records: records(bodies...)})
	require.NoError(t, err)
	return c
}

func (n *node) append(t testing.TB, name stream.Name, bodies ...string) stream.Appended {
	t.Helper()
	a, err := n.Append(t.Context(), name, &stream.AppendRequest{Records: records(bodies...)})
	require.NoError(t, err)
	return a
}

// read is the bodies from an offset on, read in pieces of at most maxBytes.
func (n *node) read(t *testing.T, name stream.Name, from stream.Offset, maxBytes int) []string {
	t.Helper()
	out := []string{}
	for {
		c, err := n.Read(t.Context(), name, stream.ReadRequest{From: stream.At(from), MaxBytes: maxBytes})
		require.NoError(t, err)
		require.Equal(t, from, c.First)
		for i := range c.Runs {
			require.Equal(t, from, c.Runs[i].First)
			for j := range c.Runs[i].Len() {
				out = append(out, string(c.Runs[i].Body(j)))
			}
			from += stream.Offset(c.Runs[i].Len())
		}
		require.Equal(t, from, c.Next)
		if c.UpToDate {
			return out
		}
	}
}

func codeOf(t *testing.T, err error) stream.Code {
	t.Helper()
	require.Error(t, err)
	return stream.CodeOf(err)
}
