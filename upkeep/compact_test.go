package upkeep_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/engine"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
	"github.com/picomq/picomq/upkeep"
)

// server is a node that serves streams and maintains them.
type server struct {
	*engine.Engine
	upkeep  *upkeep.Upkeep
	replica *replica.Replica
	stop    func()
}

// serve starts a server whose tail cache holds so many bytes.
func (w *world) serve(t testing.TB, tailBytes, packedBytes int) *server {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	hub, log := engine.NewHub(), w.log.Peer()
	r, err := replica.Open(t.Context(), replica.Config{Log: log, Bucket: w.faulty, Logger: quiet, Now: w.now, Published: hub.Publish, Poll: 10 * time.Millisecond, QueueTimeout: time.Minute, CallTimeout: time.Minute})
	require.NoError(t, err)
	self := commands.RegisterNode{Cluster: cluster, Level: commands.Level}
	_, _ = rand.Read(self.Incarnation[:])
	id, epoch, err := r.Register(t.Context(), self)
	require.NoError(t, err)
	identity := blobwal.Identity{Cluster: cluster, Node: uint32(id), Epoch: uint64(epoch), Incarnation: self.Incarnation}
	cache, err := blockcache.New(blockcache.Config{Bucket: w.faulty, Cluster: cluster, TailBytes: tailBytes, BlockBytes: 1 << 20, Logger: quiet, Tries: 1})
	require.NoError(t, err)
	e, err := engine.New(engine.Config{
		Replica: r, Hub: hub, Cache: cache, Logger: quiet, Now: w.now,
		// A put that fails for good is given up after this.
		Writer: blobwal.WriterConfig{Bucket: w.faulty, Deadline: 5 * time.Second, Identity: identity},
	})
	require.NoError(t, err)
	u, err := upkeep.New(upkeep.Config{
		Replica: r, Leases: log, Bucket: w.faulty, Cache: cache, Segments: e, Identity: identity, Logger: quiet,
		PackedBytes: packedBytes, Bandwidth: 1 << 40,
	})
	require.NoError(t, err)
	s := &server{Engine: e, upkeep: u, replica: r}
	s.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = e.Close(ctx)
		r.Close()
		cache.Close()
	})
	t.Cleanup(s.stop)
	return s
}

// keeps is what a stream must hold.
type keeps struct {
	start  stream.Offset
	bodies []string // from offset 0 on, trimmed ones too
}

// tale does random things to streams and remembers what they must hold.
type tale struct {
	t       *testing.T
	w       *world
	s       *server
	random  *mathrand.Rand
	streams map[stream.Name]*keeps
	made    int
}

func (x *tale) any() (stream.Name, *keeps) {
	n := x.random.IntN(len(x.streams))
	for i := range x.made {
		name := stream.Name(fmt.Sprint("s", i))
		if k := x.streams[name]; k != nil {
			if n--; n < 0 {
				return name, k
			}
		}
	}
	panic("no stream")
}

func (x *tale) next() stream.Name {
	x.made++
	return stream.Name(fmt.Sprint("s", x.made-1))
}

func (x *tale) bodies() (records []stream.Record, bodies []string) {
	for range 1 + x.random.IntN(4) {
		body := strings.Repeat(string(rune('a'+x.random.IntN(26))), 1+x.random.IntN(40))
		bodies = append(bodies, body)
		records = append(records, stream.Record{Body: []byte(body)})
	}
	return records, bodies
}

func (x *tale) step() {
	t := x.t
	if len(x.streams) == 0 || x.random.IntN(12) == 0 {
		name := x.next()
		records, bodies := x.bodies()
		_, err := x.s.Create(t.Context(), name, &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}, Records: records})
		require.NoError(t, err)
		x.streams[name] = &keeps{bodies: bodies}
		return
	}
	name, k := x.any()
	tail := stream.Offset(len(k.bodies))
	switch x.random.IntN(16) {
	case 0:
		to := k.start + stream.Offset(x.random.IntN(int(tail-k.start)+1))
		_, err := x.s.Trim(t.Context(), name, to)
		require.NoError(t, err)
		k.start = to
	case 1:
		if x.random.IntN(3) == 0 {
			require.NoError(t, x.s.Delete(t.Context(), name))
			delete(x.streams, name)
		}
	case 2, 3:
		x.fork(name, k, tail)
	default:
		records, bodies := x.bodies()
		_, err := x.s.Append(t.Context(), name, &stream.AppendRequest{Records: records})
		require.NoError(t, err)
		k.bodies = append(k.bodies, bodies...)
	}
}

func (x *tale) fork(name stream.Name, k *keeps, tail stream.Offset) {
	at := k.start + stream.Offset(x.random.IntN(int(tail-k.start)+1))
	f := &stream.ForkRequest{From: name, At: &at}
	child := &keeps{start: k.start, bodies: append([]string(nil), k.bodies[:at]...)}
	if at < tail && x.random.IntN(2) == 0 {
		f.Sub = 1 + uint64(x.random.IntN(len(k.bodies[at])))
		child.bodies = append(child.bodies, k.bodies[at][:f.Sub])
	}
	to := x.next()
	_, err := x.s.Create(x.t.Context(), to, &stream.CreateRequest{Fork: f})
	require.NoError(x.t, err)
	x.streams[to] = child
}

// check reads every stream.
func (x *tale) check() {
	x.t.Helper()
	for name, k := range x.streams {
		got := []string{}
		for from := k.start; ; {
			c, err := x.s.Read(x.t.Context(), name, stream.ReadRequest{From: stream.At(from), MaxBytes: 1 + x.random.IntN(500)})
			require.NoError(x.t, err, "%s from %d", name, from)
			for i := range c.Runs {
				for j := range c.Runs[i].Len() {
					got = append(got, string(c.Runs[i].Body(j)))
				}
			}
			if from = c.Next; c.UpToDate {
				break
			}
		}
		require.Equal(x.t, append([]string{}, k.bodies[k.start:]...), got, "%s", name)
	}
}

// TestCompactionKeepsEveryRecord: whatever happens to streams, and however often
// their records are moved, they read as before.
func TestCompactionKeepsEveryRecord(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t)
			// With and without a cache of what was uploaded.
			tail := []int{1 << 20, 1}[seed%2]
			x := &tale{t: t, w: w, s: w.serve(t, tail, 2<<10), random: mathrand.New(mathrand.NewPCG(seed, 1)), streams: map[stream.Name]*keeps{}}
			for range 12 {
				for range 60 {
					x.step()
				}
				w.clock.Add(2000)
				require.NoError(t, x.s.upkeep.Step(t.Context(), w.now()))
				x.check()
			}
			stats := x.s.upkeep.Compaction()
			require.Positive(t, stats.Extents)
			require.Positive(t, stats.Inputs)
			x.s.stop()
			x.s = w.serve(t, tail, 2<<10)
			x.check()
			levels := map[uint8]int{}
			list, _ := x.s.replica.View().Segments(0, 1<<20)
			for _, g := range list {
				levels[g.Level]++
			}
			t.Log(stats, levels, x.s.replica.View().Counts())
			require.Greater(t, len(levels), 2, "more than one level was packed")
		})
	}
}

// TestForksStillShareAfterCompaction: records that several streams have are
// copied once.
func TestForksStillShareAfterCompaction(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 1<<20, 16<<10)
	body := []stream.Record{{Body: []byte(strings.Repeat("x", 1000))}}
	_, err := s.Create(t.Context(), "parent", &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}})
	require.NoError(t, err)
	for i := range 16 {
		_, err := s.Append(t.Context(), "parent", &stream.AppendRequest{Records: body})
		require.NoError(t, err)
		_, err = s.Create(t.Context(), stream.Name(fmt.Sprint("fork", i)), &stream.CreateRequest{Fork: &stream.ForkRequest{From: "parent"}})
		require.NoError(t, err)
	}
	require.NoError(t, s.upkeep.Step(t.Context(), w.now()))
	list, _ := s.replica.View().Segments(0, 1<<10)
	require.Equal(t, 1, listed(list, 1))
	require.Less(t, s.upkeep.Compaction().Written, uint64(16<<10), "each record once, not up to sixteen times")
	for id := range stream.ID(17) {
		require.LessOrEqual(t, len(s.replica.View().Extents(id+1, 0, 100)), 1+listed(list, 0))
	}
}

// TestASegmentThatCannotBeReadHoldsUpNothingElse: its readers get an error that
// names it, and the rest is compacted.
func TestASegmentThatCannotBeReadHoldsUpNothingElse(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 1, 1<<10)
	record := []stream.Record{{Body: []byte(strings.Repeat("x", 200))}}
	for i := range 8 {
		_, err := s.Create(t.Context(), stream.Name(fmt.Sprint("s", i)), &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}, Records: record})
		require.NoError(t, err)
	}
	victim := s.replica.View().Extents(1, 0, 1)[0].In
	key := blobwal.Key(cluster, blobwal.SegmentID{Node: uint32(victim.Node), Epoch: uint64(victim.Epoch), Sequence: victim.Sequence})
	require.NoError(t, w.bucket.Delete(t.Context(), key))
	err := s.upkeep.Step(t.Context(), w.now())
	require.ErrorContains(t, err, key)
	for range 10 {
		w.clock.Add(2000)
		_ = s.upkeep.Step(t.Context(), w.now())
	}
	require.Equal(t, 1, s.upkeep.Compaction().Unusable)
	require.Positive(t, s.upkeep.Compaction().Runs)
	_, err = s.Read(t.Context(), "s0", stream.ReadRequest{MaxBytes: 1})
	require.ErrorContains(t, err, key)
	require.Equal(t, stream.CodeInternal, stream.CodeOf(err))
	for i := 1; i < 8; i++ {
		_, err := s.Read(t.Context(), stream.Name(fmt.Sprint("s", i)), stream.ReadRequest{MaxBytes: 1})
		require.NoError(t, err)
	}
}

// TestPackedSegmentsOfStreamsThatCameAndWentGrow: streams that are written for a
// minute and then no more never share a segment with those of the next minute.
// That must not leave a small packed segment a minute for ever.
func TestPackedSegmentsOfStreamsThatCameAndWentGrow(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 1<<20, 1<<20)
	record := []stream.Record{{Body: []byte(strings.Repeat("x", 20))}}
	for minute := range 80 {
		for i := range 32 {
			name := stream.Name(fmt.Sprint("s", minute, "-", i))
			_, err := s.Create(t.Context(), name, &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}, Records: record})
			require.NoError(t, err)
		}
		w.clock.Add(time.Minute.Milliseconds())
		require.NoError(t, s.upkeep.Step(t.Context(), w.now()))
	}
	list, _ := s.replica.View().Segments(0, 1<<20)
	packed := 0
	for level := range uint8(10) {
		if level > 0 {
			require.Less(t, listed(list, level), 8, "level %d", level)
			packed += listed(list, level)
		}
	}
	require.LessOrEqual(t, packed, 16)
	require.Less(t, s.upkeep.Compaction().Written, 5*s.Writer().Bytes)
}

// TestWhatAnEstimateGotWrongIsCompacted: of an extent that was trimmed the state
// only estimates the bytes, and may be wrong by any factor.
func TestWhatAnEstimateGotWrongIsCompacted(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 1<<20, 1<<10)
	records := make([]stream.Record, 1000)
	for i := range records {
		records[i].Body = []byte("x")
	}
	records[999].Body = []byte(strings.Repeat("y", 900<<10))
	_, err := s.Create(t.Context(), "s", &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}, Records: records})
	require.NoError(t, err)
	_, err = s.Trim(t.Context(), "s", 999)
	require.NoError(t, err)
	require.NoError(t, s.upkeep.Step(t.Context(), w.now()))
	x := s.replica.View().Extents(1, 999, 1)[0]
	require.EqualValues(t, 1, x.In.Level)
	require.Greater(t, x.Bytes, uint32(900<<10))
}

// TestManySpoiledSegmentsHoldUpNothingElse: however many there are, they are found
// within a minute, before the first of them is tried again.
func TestManySpoiledSegmentsHoldUpNothingElse(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 1, 1<<10)
	record := []stream.Record{{Body: []byte(strings.Repeat("x", 600))}}
	for i := range 50 {
		name := stream.Name(fmt.Sprint("s", i))
		_, err := s.Create(t.Context(), name, &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}, Records: record})
		require.NoError(t, err)
	}
	for i := range stream.ID(40) {
		g := s.replica.View().Extents(i+1, 0, 1)[0].In
		key := blobwal.Key(cluster, blobwal.SegmentID{Node: uint32(g.Node), Epoch: uint64(g.Epoch), Sequence: g.Sequence})
		require.NoError(t, w.bucket.Delete(t.Context(), key))
	}
	for range 60 {
		w.clock.Add(1000)
		_ = s.upkeep.Step(t.Context(), w.now())
	}
	require.Equal(t, 40, s.upkeep.Compaction().Unusable)
	require.Positive(t, s.upkeep.Compaction().Runs)
}

// TestAnObjectThatIsRefusedHoldsUpNothingElse: an error that might pass does not
// have to.
func TestAnObjectThatIsRefusedHoldsUpNothingElse(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 1, 1<<10)
	record := []stream.Record{{Body: []byte(strings.Repeat("x", 200))}}
	for i := range 12 {
		name := stream.Name(fmt.Sprint("s", i))
		_, err := s.Create(t.Context(), name, &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}, Records: record})
		require.NoError(t, err)
	}
	g := s.replica.View().Extents(1, 0, 1)[0].In
	key := blobwal.Key(cluster, blobwal.SegmentID{Node: uint32(g.Node), Epoch: uint64(g.Epoch), Sequence: g.Sequence})
	w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
		if op.Kind == faultbucket.Get && op.Key == key {
			return faultbucket.Decision{Before: faultbucket.Fail(op)}
		}
		return faultbucket.Decision{}
	})
	for range 60 {
		w.clock.Add(1000)
		_ = s.upkeep.Step(t.Context(), w.now())
	}
	require.Positive(t, s.upkeep.Compaction().Runs)
}

// TestCompactionResumes: wherever it is interrupted, nothing is lost, and the
// next one does what is left.
func TestCompactionResumes(t *testing.T) {
	for fail := 1; ; fail += 5 {
		w := newWorld(t)
		x := &tale{t: t, w: w, s: w.serve(t, 1, 1<<10), random: mathrand.New(mathrand.NewPCG(7, 7)), streams: map[stream.Name]*keeps{}}
		for range 80 {
			x.step()
		}
		calls := 0
		w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
			if calls++; calls >= fail {
				return faultbucket.Decision{Before: faultbucket.Fail(op)}
			}
			return faultbucket.Decision{}
		})
		w.clock.Add(2000)
		failed := x.s.upkeep.Step(t.Context(), w.now()) != nil
		w.faults.SetPlan(nil)
		x.check()
		if fail%2 == 0 {
			x.s.stop()
			x.s = w.serve(t, 1, 1<<10)
		}
		for range 5 {
			w.clock.Add(time.Minute.Milliseconds())
			require.NoError(t, x.s.upkeep.Step(t.Context(), w.now()))
		}
		x.check()
		list, _ := x.s.replica.View().Segments(0, 1<<20)
		for _, g := range list {
			require.Falsef(t, g.Level == 0 && !g.Dead() && listed(list, 0) > 8, "%d small segments are left", listed(list, 0))
		}
		x.s.stop()
		if !failed {
			return
		}
	}
}

// listed counts the segments of a level that are referred to.
func listed(list []statemachine.Slotted, level uint8) (n int) {
	for i := range list {
		if list[i].Level == level && !list[i].Dead() {
			n++
		}
	}
	return n
}
