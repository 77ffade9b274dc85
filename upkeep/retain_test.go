package upkeep_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
	"github.com/picomq/picomq/upkeep"
)

// written is a stream as a test wrote it.
type written struct {
	id    stream.ID
	sizes []int         // of the bodies, by offset
	times []stream.Time // of the records
}

// append writes records of these sizes into a segment of their own.
func (s *written) append(t *testing.T, n *node, sizes ...int) {
	t.Helper()
	a := &blobwal.Append{Stream: s.id}
	for _, size := range sizes {
		a.Records = append(a.Records, stream.Record{Body: body(size)})
	}
	sequence := n.segments.Reserve()
	encoded := blobwal.Encode(n.identity, sequence, []*blobwal.Append{a})
	require.NoError(t, n.segments.Store(t.Context(), n.identity.Segment(sequence), encoded.Object))
	d, err := n.Propose(t.Context(), commands.NewCommitSegment(sequence, uint64(len(encoded.Object)),
		[]commands.Append{{ID: s.id, Records: uint32(len(sizes)), Bytes: encoded.Bytes[0]}}, nil))
	require.NoError(t, err)
	require.Equal(t, statemachine.Accepted, d.Results[0].Verdict)
	for _, size := range sizes {
		s.sizes, s.times = append(s.sizes, size), append(s.times, d.Time)
	}
}

func body(size int) []byte { return bytes.Repeat([]byte{'x'}, size) }

// pack puts all that the stream holds into one packed segment.
func (s *written) pack(t *testing.T, n *node) {
	t.Helper()
	packTogether(t, n, s)
}

// packTogether puts all that streams hold, in the order of their ids, into one
// packed segment.
func packTogether(t *testing.T, n *node, streams ...*written) {
	t.Helper()
	sequence := n.segments.Reserve()
	packer, err := blobwal.NewPacker(n.identity, sequence, 64<<20)
	require.NoError(t, err)
	var runs []commands.Run
	for _, s := range streams {
		if run := s.copy(t, n, packer); len(run.Pieces) > 0 {
			runs = append(runs, run)
		}
	}
	packed := packer.Seal()
	if packed == nil {
		return
	}
	require.NoError(t, n.segments.Store(t.Context(), packed.ID, packed.Object))
	results := n.propose(t, &commands.Pack{
		Sequence: sequence, Size: uint64(len(packed.Object)), Level: 1, Oldest: packed.Oldest, Newest: packed.Newest,
		First: streams[0].id, Last: streams[len(streams)-1].id,
	})
	n.propose(t, commands.NewSwap(results[0].Segment, sequence, runs))
}

// copy adds all that the stream holds to a packed segment.
func (s *written) copy(t *testing.T, n *node, packer *blobwal.Packer) commands.Run {
	t.Helper()
	run := commands.Run{ID: s.id, Ordinal: packer.Records()}
	before := packer.Bytes()
	for i, e := range n.View().Extents(s.id, 0, 1<<20) {
		if i == 0 {
			run.First = e.First
		}
		run.Pieces = append(run.Pieces, commands.Piece{Slot: e.Segment, Ordinal: e.Ordinal, Count: e.Count()})
		for at := e.First; at < e.End(); at++ {
			one := stream.Run{First: at, Time: s.times[at], Bodies: body(s.sizes[at]), Ends: []uint32{uint32(s.sizes[at])}}
			_, err := packer.Add(s.id, one)
			require.NoError(t, err)
		}
	}
	run.Bytes = uint32(packer.Bytes() - before)
	return run
}

// Bytes that a record takes beside its body: at least, and at most with its
// share of a block and its line in the index.
const (
	leastFraming = 4
	mostFraming  = 80
)

// bounds are the offsets that a stream may be trimmed to at most, and must be
// trimmed to if records could go one by one.
func (s *written) bounds(keep stream.Retention, now stream.Time) (most, least int) {
	aged := 0
	for keep.Age > 0 && aged < len(s.times) && s.times[aged] < now-stream.Time(keep.Age)*1000 {
		aged++
	}
	if keep.Bytes == 0 {
		return aged, aged
	}
	after := func(framing int) (at int) {
		held := uint64(0)
		for at = len(s.sizes); at > 0 && held < keep.Bytes; held += uint64(s.sizes[at] + framing) {
			at--
		}
		return at
	}
	return max(aged, after(mostFraming)), max(aged, after(leastFraming))
}

func (s *written) bytes(from, to int) (n int) {
	for ; from < to; from++ {
		n += s.sizes[from] + leastFraming
	}
	return n
}

func TestRetentionAgainstOneThatGoesRecordByRecord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		n := w.start(t, 0)
		defer n.stop()
		keep := stream.Retention{}
		if which := rapid.IntRange(1, 3).Draw(rt, "which"); true {
			if which&1 != 0 {
				keep.Age = uint64(rapid.IntRange(20, 600).Draw(rt, "age"))
			}
			if which&2 != 0 {
				keep.Bytes = uint64(rapid.IntRange(1, 1<<20).Draw(rt, "bytes"))
			}
		}
		s := &written{id: n.create(t, "s", stream.Config{Retention: keep})}
		large := rapid.SampledFrom([]int{10, 3000, 100_000}).Draw(rt, "size")
		trimmed := 0
		for round := range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			for range rapid.IntRange(1, 12).Draw(rt, "appends") {
				sizes := make([]int, rapid.IntRange(1, 40).Draw(rt, "records"))
				for i := range sizes {
					sizes[i] = large + i%3
				}
				s.append(t, n, sizes...)
				w.clock.Add(int64(rapid.IntRange(0, 20_000).Draw(rt, "ms")))
			}
			if rapid.Bool().Draw(rt, "pack") {
				s.pack(t, n)
			}
			w.clock.Add(upkeep.TickEvery.Milliseconds())
			require.NoError(rt, n.Step(t.Context(), w.now()))
			now := n.View().LogTime()
			st, _ := n.View().Stream(s.id)
			start := int(st.Start)
			most, least := s.bounds(keep, now)
			if start > trimmed {
				require.LessOrEqual(rt, start, most, "round %d: a record that must be kept was trimmed", round)
			}
			require.Less(rt, s.bytes(start, least), blobwal.MaxBlockBytes+large+2+leastFraming+8192,
				"round %d: kept from %d, and records up to %d are overdue", round, start, least)
			trimmed = start
		}
	})
}

func TestRetentionByDefaultAndByTheStreamsOwn(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0, func(c *upkeep.Config) { c.Retention = stream.Retention{Age: 300} })
	silent := &written{id: n.create(t, "silent", stream.Config{})}
	own := &written{id: n.create(t, "own", stream.Config{Retention: stream.Retention{Age: 3600}})}
	idle := &written{id: n.create(t, "idle", stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 600}})}
	for _, s := range []*written{silent, own, idle} {
		s.append(t, n, 10, 10)
	}
	w.pass(t, n, 4*time.Minute)
	for _, s := range []*written{silent, own, idle} {
		require.Zero(t, n.startOf(s))
	}
	w.pass(t, n, 2*time.Minute)
	require.EqualValues(t, 2, n.startOf(silent))
	require.EqualValues(t, 2, n.startOf(idle))
	require.Zero(t, n.startOf(own))
	w.pass(t, n, 5*time.Minute)
	_, ok := n.View().Lookup("idle")
	require.False(t, ok, "that retention trims it is no use of it")
	w.pass(t, n, time.Hour)
	require.EqualValues(t, 2, n.startOf(own))
	silent.append(t, n, 10)
	st, _ := n.View().Stream(silent.id)
	require.EqualValues(t, 3, st.Tail, "offsets go on")
}

func (n *node) startOf(s *written) stream.Offset {
	st, _ := n.View().Stream(s.id)
	return st.Start
}

func TestMillisecondsOfManyStreamsAreTrimmedInFewRows(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0, func(c *upkeep.Config) { c.Retention = stream.Retention{Age: 60} })
	var appends []commands.Append
	for i := range 3000 {
		appends = append(appends, commands.Append{ID: n.create(t, fmt.Sprint(i), stream.Config{}), Records: 1, Bytes: 7})
	}
	n.commit(t, appends...)
	before := n.Applied()
	w.clock.Add(2 * time.Minute.Milliseconds())
	w.pass(t, n, 30*time.Second)
	require.Less(t, n.Applied()-before, commands.Index(20))
	require.Zero(t, n.View().Counts().Extents)
}

// mixedStream is a packed stream of 600 records of 1 KB, ten every ten seconds.
func mixedStream(t *testing.T, w *world, n *node, name string, keep stream.Retention) *written {
	s := &written{id: n.create(t, name, stream.Config{Retention: keep})}
	for range 60 {
		s.append(t, n, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000)
		w.clock.Add(10_000)
	}
	s.pack(t, n)
	return s
}

func TestLooksIntoASegmentAreNotRepeated(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	s := mixedStream(t, w, n, "aged", stream.Retention{Age: 900, Bytes: 1 << 30})
	w.pass(t, n, 330*time.Second) // the first half minute of it is too old
	at := n.startOf(s)
	require.Positive(t, at)
	require.LessOrEqual(t, at, stream.Offset(30))
	gets := w.faults.Count(faultbucket.Get)
	w.pass(t, n, 20*time.Second)
	require.Equal(t, at, n.startOf(s), "until another block may go")
	require.Equal(t, gets, w.faults.Count(faultbucket.Get))
	w.pass(t, n, 3*time.Minute)
	require.Greater(t, n.startOf(s), at)
}

func TestASpoiledObjectHoldsUpNoOtherStream(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	keep := stream.Retention{Age: 900}
	first, second := mixedStream(t, w, n, "first", keep), mixedStream(t, w, n, "second", keep)
	var spoiled string
	for _, e := range n.View().Extents(first.id, 0, 1) {
		spoiled = blobwal.Key(cluster, n.identity.Segment(e.In.Sequence))
	}
	object, err := w.bucket.ReadAll(t.Context(), spoiled)
	require.NoError(t, err)
	clear(object[len(object)/4:])
	require.NoError(t, w.bucket.WriteAll(t.Context(), spoiled, object, nil))
	said := ""
	for range 100 {
		w.clock.Add(upkeep.TickEvery.Milliseconds())
		_ = n.Step(t.Context(), w.now())
		if s := n.status(t, "retain"); s.Error != "" {
			said = s.Error
		}
		if n.startOf(second) == 600 {
			break
		}
	}
	require.Contains(t, said, spoiled)
	require.EqualValues(t, 600, n.startOf(first), "what the state knows is enough in the end")
	require.EqualValues(t, 600, n.startOf(second))
}

func TestRetentionAfterACrashAnywhere(t *testing.T) {
	prepare := func(t *testing.T, w *world, n *node) {
		mixedStream(t, w, n, "a", stream.Retention{Age: 300})
		mixedStream(t, w, n, "b", stream.Retention{Bytes: 200_000})
	}
	check := func(t *testing.T, w *world, n *node, done bool) {
		for name, kept := range map[stream.Name]int{"a": 0, "b": 200} {
			st, ok := n.View().Lookup(name)
			require.True(t, ok)
			if require.LessOrEqual(t, int(st.Start), 600-kept); done {
				require.Greater(t, int(st.Start), 600-kept-130)
			}
		}
		if done {
			requireObjects(t, w, n, true)
		}
	}
	crashes{prepare: prepare, check: check, steps: 3}.run(t)
}

func TestRetentionOfAForkThatEndsInsideABlock(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	parent := mixedStream(t, w, n, "parent", stream.Retention{})
	at := stream.Offset(590)
	keep := stream.Retention{Bytes: 200 * 1004}
	n.propose(t, &commands.Create{
		Name: "fork", Config: stream.Config{Retention: keep}, Fork: &commands.Fork{Parent: parent.id, At: &at},
	})
	w.pass(t, n, 20*time.Second)
	fork, ok := n.View().Lookup("fork")
	require.True(t, ok)
	require.LessOrEqual(t, fork.Start, at-200)
	require.Greater(t, fork.Start, at-200-66)
	require.Zero(t, n.startOf(parent))
}

func TestRetentionOfStreamsThatShareSegments(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	keep := stream.Retention{Age: 3600}
	// Both lie in one segment: what is old in it is of one stream only.
	old := &written{id: n.create(t, "old", stream.Config{Retention: keep})}
	young := &written{id: n.create(t, "young", stream.Config{Retention: keep})}
	for range 100 {
		old.append(t, n, 1000)
	}
	w.clock.Add(time.Hour.Milliseconds())
	for range 100 {
		young.append(t, n, 1000)
	}
	packTogether(t, n, old, young)
	w.pass(t, n, 20*time.Second)
	require.EqualValues(t, 100, n.startOf(old))
	require.Zero(t, n.startOf(young))
}

func TestRetentionWhileTheBucketIsAway(t *testing.T) {
	w := newWorld(t)
	n := w.start(t, 0)
	var all []*written
	for i := range 5 {
		all = append(all, mixedStream(t, w, n, fmt.Sprint(i), stream.Retention{Bytes: 200_000}))
	}
	whole := &written{id: n.create(t, "whole", stream.Config{Retention: stream.Retention{Age: 10}})}
	whole.append(t, n, 10)
	w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
		return faultbucket.Decision{Before: faultbucket.Fail(op)}
	})
	gets := w.faults.Count(faultbucket.Get)
	for range 6 {
		w.clock.Add(upkeep.TickEvery.Milliseconds())
		_ = n.Step(t.Context(), w.now())
	}
	require.NotEmpty(t, n.status(t, "retain").Error)
	require.Less(t, w.faults.Count(faultbucket.Get)-gets, 20, "not one for each stream and pass")
	require.EqualValues(t, 1, n.startOf(whole), "what needs no object goes on")
	w.faults.SetPlan(nil)
	w.clock.Add(time.Minute.Milliseconds())
	w.pass(t, n, 30*time.Second)
	for _, s := range all {
		require.Positive(t, n.startOf(s))
	}
}

// TestRetentionOfAForkBelievesNoEstimate: a fork's part of a batch may be much
// smaller than its share of the records says.
func TestRetentionOfAForkBelievesNoEstimate(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 1<<20, 1<<20)
	first := []stream.Record{{Body: []byte(strings.Repeat("a", 100<<10))}}
	_, err := s.Create(t.Context(), "p", &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}, Records: first})
	require.NoError(t, err)
	batch := make([]stream.Record, 901)
	for i := range batch {
		batch[i].Body = []byte("x")
	}
	batch[900].Body = []byte(strings.Repeat("y", 1<<20))
	_, err = s.Append(t.Context(), "p", &stream.AppendRequest{Records: batch})
	require.NoError(t, err)
	at := stream.Offset(901) // all but the large one
	keep := stream.Config{Retention: stream.Retention{Bytes: 500 << 10}}
	_, err = s.Create(t.Context(), "f", &stream.CreateRequest{Config: keep, Fork: &stream.ForkRequest{From: "p", At: &at}})
	require.NoError(t, err)
	w.clock.Add(20_000)
	require.NoError(t, s.upkeep.Step(t.Context(), w.now()))
	st, _ := s.replica.View().Lookup("f")
	require.Zero(t, st.Start, "it has 105 kB and is to keep 500 kB")
}
