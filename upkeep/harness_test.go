package upkeep_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
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
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
	"github.com/picomq/picomq/upkeep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var cluster = commands.ClusterID{1}

// world is a log and a bucket with a clock that tests move.
type world struct {
	log    *sqllogtest.Memory
	bucket *blob.Bucket // as it is: no faults
	faulty *blob.Bucket // as nodes see it
	faults *faultbucket.Faults
	clock  atomic.Int64
	small  func(*replica.Config) // changes how replicas are configured; may be nil
}

func newWorld(t testing.TB) *world {
	w := &world{log: sqllogtest.NewMemory(), bucket: memblob.OpenBucket(nil)}
	w.faulty, w.faults = faultbucket.Wrap(w.bucket, nil)
	w.clock.Store(time.Now().UnixMilli()) // objects get the real time
	w.log.Now = w.now
	t.Cleanup(func() { require.NoError(t, w.faulty.Close()) })
	return w
}

func (w *world) now() time.Time { return time.UnixMilli(w.clock.Load()) }

// node is one start of a node.
type node struct {
	*replica.Replica
	*upkeep.Upkeep
	log      *sqllogtest.Memory
	fault    atomic.Pointer[fault]
	identity blobwal.Identity
	segments *segments
	leases   atomic.Int64 // calls for a lease
	failing  atomic.Bool  // such calls fail
	stop     func()
}

// segments is what the engine would do for compaction.
type segments struct {
	bucket   *blob.Bucket
	cluster  [16]byte
	identity blobwal.Identity
	next     atomic.Uint64
	mu       sync.Mutex
	givenUp  []uint64
}

func (s *segments) Identity() blobwal.Identity { return s.identity }

func (s *segments) Reserve() uint64 { return s.next.Add(1) }

func (s *segments) Store(ctx context.Context, id blobwal.SegmentID, object []byte) error {
	return s.bucket.WriteAll(ctx, blobwal.Key(s.cluster, id), object, &blob.WriterOptions{ContentType: "application/octet-stream"})
}

func (s *segments) GiveUp(ids ...blobwal.SegmentID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.givenUp = append(s.givenUp, id.Sequence)
	}
}

// start is a node with maintenance as configured; number 0 takes a new one.
func (w *world) start(t *testing.T, number commands.NodeID, configure ...func(*upkeep.Config)) *node {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	n := &node{log: w.log.Peer()}
	n.log.Lost = func(commands.Insert, commands.Inserted) error { return n.fault.Load().lost() }
	n.log.Before = func(_ context.Context, call string) error {
		if call == "acquire lease" {
			n.leases.Add(1)
			if n.failing.Load() {
				return errors.New("the database is away")
			}
		}
		return n.fault.Load().before(call)
	}
	n.log.After = func(string) error { return n.fault.Load().lost() }
	var err error
	rc := replica.Config{Log: n.log, Bucket: w.faulty, Logger: quiet, Now: w.now, Poll: 10 * time.Millisecond, QueueTimeout: time.Minute, CallTimeout: time.Minute}
	if w.small != nil {
		w.small(&rc)
	}
	n.Replica, err = replica.Open(t.Context(), rc)
	require.NoError(t, err)
	self := commands.RegisterNode{Cluster: cluster, Node: number, Level: commands.Level}
	_, _ = rand.Read(self.Incarnation[:])
	id, epoch, err := n.Register(t.Context(), self)
	require.NoError(t, err)
	n.identity = blobwal.Identity{Cluster: cluster, Node: uint32(id), Epoch: uint64(epoch), Incarnation: self.Incarnation}
	n.segments = &segments{bucket: w.faulty, cluster: cluster, identity: n.identity}
	cache, err := blockcache.New(blockcache.Config{Bucket: w.faulty, Cluster: cluster, Tries: 1})
	require.NoError(t, err)
	cfg := upkeep.Config{
		Replica: n.Replica, Leases: n.log, Bucket: w.faulty, Cache: cache, Segments: n.segments, Identity: n.identity, Logger: quiet,
	}
	for _, f := range configure {
		f(&cfg)
	}
	n.Upkeep, err = upkeep.New(cfg)
	require.NoError(t, err)
	n.stop = sync.OnceFunc(func() {
		n.Replica.Close()
		cache.Close()
	})
	t.Cleanup(n.stop)
	return n
}

// number is the node's, which its next start takes.
func (n *node) number() commands.NodeID {
	number, _ := n.Node()
	return number
}

// propose is commands that must be accepted.
func (n *node) propose(t *testing.T, cmds ...commands.Command) []statemachine.Result {
	t.Helper()
	d, err := n.Propose(t.Context(), cmds...)
	require.NoError(t, err)
	for i := range d.Results {
		require.Equal(t, statemachine.Accepted, d.Results[i].Verdict, "%T", cmds[i])
	}
	return d.Results
}

func (n *node) create(t *testing.T, name string, config stream.Config) stream.ID {
	t.Helper()
	config.ContentType = "text/plain"
	n.propose(t, &commands.Create{Name: stream.Name(name), Config: config})
	s, ok := n.View().Lookup(stream.Name(name))
	require.True(t, ok)
	return s.ID
}

// commit appends records to streams as one segment, whose object says nothing.
func (n *node) commit(t *testing.T, appends ...commands.Append) (slot uint32, id blobwal.SegmentID) {
	t.Helper()
	id = n.identity.Segment(n.segments.Reserve())
	object := bytes.Repeat([]byte("records"), len(appends))
	require.NoError(t, n.segments.Store(t.Context(), id, object))
	results := n.propose(t, commands.NewCommitSegment(id.Sequence, uint64(len(object)), appends, nil))
	return results[0].Segment, id
}

// pass lets time go by in steps and works at each.
func (w *world) pass(t *testing.T, n *node, d time.Duration) {
	t.Helper()
	for end := w.now().Add(d); w.now().Before(end); {
		w.clock.Add(upkeep.TickEvery.Milliseconds())
		require.NoError(t, n.Step(t.Context(), w.now()))
	}
}

// has tells whether the bucket holds a segment.
func (w *world) has(t *testing.T, id blobwal.SegmentID) bool {
	t.Helper()
	ok, err := w.bucket.Exists(t.Context(), blobwal.Key(cluster, id))
	require.NoError(t, err)
	return ok
}

// status is how a job of a node is doing.
func (n *node) status(t *testing.T, job string) upkeep.Status {
	t.Helper()
	for _, s := range n.Status() {
		if s.Job == job {
			return s
		}
	}
	require.Fail(t, "no such job", job)
	return upkeep.Status{}
}
