package fsck_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
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
	"github.com/picomq/picomq/internal/fsck"
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
	faulty *blob.Bucket // as fsck sees it
	faults *faultbucket.Faults
	clock  atomic.Int64
}

func newWorld(t *testing.T) *world {
	w := &world{log: sqllogtest.NewMemory(), bucket: memblob.OpenBucket(nil)}
	w.faulty, w.faults = faultbucket.Wrap(w.bucket, nil)
	w.clock.Store(time.Now().UnixMilli())
	w.log.Now = w.now
	t.Cleanup(func() { require.NoError(t, w.faulty.Close()) })
	require.NoError(t, w.bucket.WriteAll(t.Context(), blobwal.IdentityKey, []byte("picomq cluster 1 "+cluster.String()+"\n"), nil))
	return w
}

func (w *world) now() time.Time { return time.UnixMilli(w.clock.Load()) }

// server is a node that serves streams and maintains them.
type server struct {
	*engine.Engine
	t        *testing.T
	upkeep   *upkeep.Upkeep
	replica  *replica.Replica
	identity blobwal.Identity
	stop     func()
}

// nodeLog is a log as a node needs it.
type nodeLog interface {
	replica.Log
	upkeep.Leases
}

// serve starts a node; number 0 takes a new one.
func (w *world) serve(t *testing.T, number commands.NodeID) *server {
	t.Helper()
	return w.serveOn(t, w.log.Peer(), number)
}

func (w *world) serveOn(t *testing.T, log nodeLog, number commands.NodeID) *server {
	t.Helper()
	quiet, hub := slog.New(slog.DiscardHandler), engine.NewHub()
	r, err := replica.Open(t.Context(), replica.Config{
		Log: log, Bucket: w.bucket, Logger: quiet, Now: w.now, Published: hub.Publish, Poll: 10 * time.Millisecond,
		SnapshotBytes: 1500, KeepRows: 3,
	})
	require.NoError(t, err)
	self := commands.RegisterNode{Cluster: cluster, Node: number, Level: commands.Level}
	_, _ = rand.Read(self.Incarnation[:])
	id, epoch, err := r.Register(t.Context(), self)
	require.NoError(t, err)
	require.NoError(t, r.KeepMarks(t.Context()))
	s := &server{t: t, replica: r}
	s.identity = blobwal.Identity{Cluster: cluster, Node: uint32(id), Epoch: uint64(epoch), Incarnation: self.Incarnation}
	require.NoError(t, blobwal.WriteMarker(t.Context(), w.bucket, s.identity))
	cache, err := blockcache.New(blockcache.Config{Bucket: w.bucket, Cluster: cluster, TailBytes: 1 << 20, BlockBytes: 1 << 20, Logger: quiet, Tries: 1})
	require.NoError(t, err)
	s.Engine, err = engine.New(engine.Config{
		Replica: r, Hub: hub, Cache: cache, Logger: quiet, Now: w.now,
		Writer: blobwal.WriterConfig{Bucket: w.bucket, Deadline: time.Second, Identity: s.identity},
	})
	require.NoError(t, err)
	s.upkeep, err = upkeep.New(upkeep.Config{
		Replica: r, Leases: log, Bucket: w.bucket, Cache: cache, Segments: s.Engine, Identity: s.identity, Logger: quiet,
		PackedBytes: 2 << 10, Bandwidth: 1 << 40,
	})
	require.NoError(t, err)
	s.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = s.Engine.Close(ctx)
		r.Close()
		cache.Close()
	})
	t.Cleanup(s.stop)
	return s
}

func (s *server) create(name stream.Name, contentType string, records ...string) {
	s.t.Helper()
	_, err := s.Create(s.t.Context(), name, &stream.CreateRequest{Config: stream.Config{ContentType: contentType}, Records: bodies(records)})
	require.NoError(s.t, err)
}

func (s *server) append(name stream.Name, records ...string) {
	s.t.Helper()
	_, err := s.Append(s.t.Context(), name, &stream.AppendRequest{Records: bodies(records)})
	require.NoError(s.t, err)
}

func (s *server) fork(from, name stream.Name, at stream.Offset, sub uint64) {
	s.t.Helper()
	_, err := s.Create(s.t.Context(), name, &stream.CreateRequest{Fork: &stream.ForkRequest{From: from, At: &at, Sub: sub}})
	require.NoError(s.t, err)
}

// propose is a command that must be accepted.
func (s *server) propose(cmd commands.Command) statemachine.Result {
	s.t.Helper()
	d, err := s.replica.Propose(s.t.Context(), cmd)
	require.NoError(s.t, err)
	require.Equal(s.t, statemachine.Accepted, d.Results[0].Verdict, "%T", cmd)
	return d.Results[0]
}

// holderOf is who a node is to a lease.
func holderOf(s *server) commands.Holder {
	return commands.Holder{Node: commands.NodeID(s.identity.Node), Epoch: commands.Epoch(s.identity.Epoch)}
}

func bodies(texts []string) (records []stream.Record) {
	for _, text := range texts {
		records = append(records, stream.Record{Body: []byte(text)})
	}
	return records
}

// populate is a world whose server was stopped, with something of everything:
// packed and unpacked segments, forks whole and cut, a stream that was trimmed and
// one that was deleted, two snapshots, and an archive of several objects.
func populate(t *testing.T) *world {
	w := newWorld(t)
	s := w.serve(t, 0)
	s.create("born", "text/plain", "with", "records")
	s.create("plain", "text/plain")
	s.create("json", "application/json", `{"a":1}`)
	for i := range 20 {
		s.append("plain", strings.Repeat(string(rune('a'+i)), 100))
		s.append("json", fmt.Sprintf(`{"n":%d}`, i))
	}
	s.fork("plain", "fork", 7, 0)
	s.fork("plain", "cut", 3, 5)
	s.fork("born", "heir", 1, 0)
	s.append("fork", "own")
	w.pass(t, s, time.Minute)
	require.Positive(t, s.upkeep.Compaction().Runs)
	s.stop()
	s = w.serve(t, 1) // another epoch
	s.create("gone", "text/plain", "soon")
	for i := range 10 {
		s.append("plain", strings.Repeat(string(rune('A'+i)), 30))
		s.append("born", "later")
	}
	_, err := s.Trim(t.Context(), "json", 4)
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), "gone"))
	for i := 0; ; i++ { // snapshots are taken in the background
		require.Less(t, i, 10_000)
		w.clock.Add(10 * time.Minute.Milliseconds())
		s.append("born", fmt.Sprint("row ", i))
		w.settle(t, s)
		archive, err := w.log.Archive(t.Context())
		require.NoError(t, err)
		if len(w.keys(t, "archive/")) >= 3 && archive.Truncated.Index > 0 && archive.Truncated.Index < archive.Head.Index {
			break
		}
	}
	s.append("plain", "a", "b", "c")
	s.append("plain", "d", "e", "f")
	s.stop()
	w.sweepSnapshots(t)
	return w
}

// sweepSnapshots deletes what a server left that was stopped between an object and
// its row.
func (w *world) sweepSnapshots(t *testing.T) {
	t.Helper()
	w.sweep(t, w.log)
}

func (w *world) sweep(t *testing.T, log nodeLog) {
	t.Helper()
	list, err := log.Snapshots(t.Context())
	require.NoError(t, err)
	named := map[string]bool{}
	for _, x := range list {
		named[x.Key] = true
	}
	for _, key := range w.keys(t, "snapshots/") {
		if !named[key] {
			w.delete(t, key)
		}
	}
}

// settle lets snapshots become old enough, and moves rows into the archive.
func (w *world) settle(t *testing.T, s *server) {
	t.Helper()
	for {
		n, err := s.replica.Archive(t.Context())
		require.NoError(t, err)
		if n == 0 {
			break
		}
	}
	for {
		n, err := s.replica.Truncate(t.Context())
		require.NoError(t, err)
		if n == 0 {
			return
		}
	}
}

// pass lets time go by in steps and does maintenance at each.
func (w *world) pass(t *testing.T, s *server, d time.Duration) {
	t.Helper()
	for end := w.now().Add(d); w.now().Before(end); {
		w.clock.Add(upkeep.TickEvery.Milliseconds())
		require.NoError(t, s.upkeep.Step(t.Context(), w.now()))
	}
}

// alone is a log that nobody else has open.
type alone struct{ *sqllogtest.Memory }

func (alone) Exclusive() bool { return true }

// found is what a check found, and what came of it.
type found struct {
	list   []fsck.Finding
	report *fsck.Report
	err    error
}

// check checks a world whose servers were stopped.
func (w *world) check(t *testing.T, configure ...func(*fsck.Config)) *found {
	t.Helper()
	f := &found{}
	cfg := fsck.Config{Log: alone{w.log.Peer()}, Bucket: w.faulty, Found: func(x fsck.Finding) { f.list = append(f.list, x) }}
	for _, c := range configure {
		c(&cfg)
	}
	f.report, f.err = fsck.Run(t.Context(), cfg)
	return f
}

func quick(c *fsck.Config)  { c.Quick = true }
func deep(c *fsck.Config)   { c.Deep = true }
func repair(c *fsck.Config) { c.Repair = true }

// faults are the errors and warnings, as "severity kind object".
func (f *found) faults() []string {
	list := []string{}
	for _, x := range f.list {
		if x.Severity != fsck.Info {
			list = append(list, fmt.Sprintf("%s %s %s", x.Severity, x.Kind, x.Object))
		}
	}
	return list
}

// requireOnly requires a check that came to its end and found exactly this.
func (f *found) requireOnly(t *testing.T, faults ...string) {
	t.Helper()
	require.NoError(t, f.err)
	require.ElementsMatch(t, append([]string{}, faults...), f.faults(), "%v", f.list)
	require.Equal(t, len(faults) == 0, f.report.Clean())
}

// info is the information of a kind, if there is any.
func (f *found) info(kind fsck.Kind) string {
	for _, x := range f.list {
		if x.Severity == fsck.Info && x.Kind == kind {
			return x.String()
		}
	}
	return ""
}

// view is the state at the log's head.
func (w *world) view(t *testing.T) statemachine.View {
	t.Helper()
	r, err := replica.Open(t.Context(), replica.Config{Log: w.log.Peer(), Bucket: w.bucket, Logger: slog.New(slog.DiscardHandler), Now: w.now})
	require.NoError(t, err)
	return r.View()
}

// segments are the live segments of a level or above, and their keys.
func (w *world) segments(t *testing.T, packed bool) (keys []string) {
	t.Helper()
	list, _ := w.view(t).Segments(0, 1<<20)
	for i := range list {
		if s := &list[i]; !s.Dead() && (s.Level > 0) == packed {
			keys = append(keys, keyOf(&s.Segment))
		}
	}
	require.NotEmpty(t, keys)
	return keys
}

func keyOf(s *statemachine.Segment) string {
	return blobwal.Key(cluster, blobwal.SegmentID{Node: uint32(s.Node), Epoch: uint64(s.Epoch), Sequence: s.Sequence})
}

func (w *world) read(t *testing.T, key string) []byte {
	t.Helper()
	data, err := w.bucket.ReadAll(t.Context(), key)
	require.NoError(t, err)
	return data
}

func (w *world) write(t *testing.T, key string, data []byte) {
	t.Helper()
	require.NoError(t, w.bucket.WriteAll(t.Context(), key, data, nil))
}

func (w *world) delete(t *testing.T, key string) {
	t.Helper()
	require.NoError(t, w.bucket.Delete(t.Context(), key))
}

// flip alters a byte; a negative position counts from the end.
func (w *world) flip(t *testing.T, key string, position int) {
	t.Helper()
	data := w.read(t, key)
	if position < 0 {
		position += len(data)
	}
	data[position] ^= 1
	w.write(t, key, data)
}

// keys are the objects of an area.
func (w *world) keys(t *testing.T, area string) (keys []string) {
	t.Helper()
	list := w.bucket.List(&blob.ListOptions{Prefix: cluster.String() + "/0000/" + area})
	for {
		o, err := list.Next(t.Context())
		if err != nil {
			return keys
		}
		keys = append(keys, o.Key)
	}
}

// failing lets reads of an object fail so many times.
func (w *world) failing(key string, times int64) {
	var left atomic.Int64
	left.Store(times)
	w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
		if op.Kind == faultbucket.Get && op.Key == key && left.Add(-1) >= 0 {
			return faultbucket.Decision{Before: faultbucket.Fail(op)}
		}
		return faultbucket.Decision{}
	})
}
