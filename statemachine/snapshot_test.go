package statemachine

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

func encode(t require.TestingT, p *Snapshot) []byte {
	var b bytes.Buffer
	require.NoError(t, p.Encode(&b))
	return b.Bytes()
}

func restore(t require.TestingT, snapshot []byte) *State {
	s, err := Restore(bytes.NewReader(snapshot))
	require.NoError(t, err)
	return s
}

// TestCutAnywhere replays histories with a snapshot and restore at every
// index: all end in the same state, and give the same outcomes on the way.
func TestCutAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := history.Draw(t, "history")
		whole := New()
		outcomes := make([]*Outcome, len(entries))
		snapshots := make([][]byte, len(entries))
		for i, e := range entries {
			outcomes[i] = whole.Apply(e)
			snapshots[i] = encode(t, whole.BeginSnapshot())
		}
		for i, snapshot := range snapshots {
			s := restore(t, snapshot)
			require.Equal(t, snapshot, encode(t, s.BeginSnapshot()), "index %d", i+1)
			for j, e := range entries[i+1:] {
				require.Equal(t, outcomes[i+1+j], s.Apply(e))
			}
			require.Equal(t, whole.Digest(), s.Digest(), "cut at %d", i+1)
			require.Equal(t, whole.dump(), s.dump(), "cut at %d", i+1)
			require.Equal(t, whole.View().Counts(), s.View().Counts())
		}
	})
}

// TestSnapshotWhileApplying begins a snapshot, changes the state, and encodes
// only then: the bytes are those of the moment it began.
func TestSnapshotWhileApplying(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		for range rapid.IntRange(0, 30).Draw(t, "before") {
			s.Apply(drawEntry(t, s))
		}
		want := encode(t, s.BeginSnapshot())
		p := s.BeginSnapshot()
		for range rapid.IntRange(0, 30).Draw(t, "meanwhile") {
			s.Apply(drawEntry(t, s))
		}
		require.Equal(t, want, encode(t, p))
		require.Equal(t, p.Digest(), restore(t, want).Digest())
		s.Apply(drawEntry(t, s))
		require.Nil(t, s.running)
		require.Equal(t, s.items, s.recompute())
	})
}

// slowly is a writer that lets entries be applied between two chunks.
type slowly struct {
	bytes.Buffer
	step func()
}

func (w *slowly) Write(b []byte) (int, error) {
	w.step()
	return w.Buffer.Write(b)
}

// TestSnapshotInterleaved changes a state of many pages between the chunks of
// its snapshot.
func TestSnapshotInterleaved(t *testing.T) {
	s, l := populate(t, 5*pageRows)
	for i := range 3 * pageRows {
		s.Apply(l.commit([]commands.Append{{ID: stream.ID(1 + i), Records: 2, Bytes: 10}}))
	}
	want := encode(t, s.BeginSnapshot())
	rng := rand.New(rand.NewPCG(3, 4))
	removed := uint64(0)
	step := func() {
		for range 40 {
			id := stream.ID(1 + rng.IntN(6*pageRows))
			removed++
			s.Apply(l.entry(
				commands.NewCommitSegment(l.seq+1<<32, 1000, []commands.Append{
					{ID: id, Records: 1, Bytes: 7, HasProducer: true, Producer: stream.Producer{ID: "p"}},
					{Create: &commands.Create{Name: benchName(1<<20 + int(l.seq))}, Records: 1, Bytes: 7},
				}, nil),
				&commands.Create{Name: benchName(2<<20 + int(l.seq)), Fork: &commands.Fork{Parent: id + pageRows}},
				&commands.Trim{ID: id + 1, To: 2},
				&commands.Delete{ID: id + pageRows}, // stays, with its name, for its fork
				&commands.Delete{ID: stream.ID(removed)},
			))
		}
	}
	w := &slowly{step: step}
	require.NoError(t, s.BeginSnapshot().Encode(w))
	assert.Equal(t, want, w.Bytes())
	step()
	assert.Equal(t, s.items, s.recompute())
	assert.NotZero(t, s.counts.Deleted)
	assert.True(t, s.streams.at(0) == nil, "an empty page outlives the snapshot that held it")
}

func TestSnapshotEnds(t *testing.T) {
	s, l := populate(t, 10)
	first := s.BeginSnapshot()
	second := s.BeginSnapshot()
	assert.ErrorIs(t, first.Encode(io.Discard), ErrSuperseded)
	second.Abandon()
	s.Apply(l.entry(&commands.Delete{ID: 3}))
	assert.Nil(t, s.running)
	assert.ErrorIs(t, second.Encode(io.Discard), ErrSuperseded)

	third := s.BeginSnapshot()
	assert.Equal(t, s.Index(), third.Index())
	failed := errors.New("disk full")
	assert.ErrorIs(t, third.Encode(writerFunc(func(b []byte) (int, error) {
		if b[0] == chunkStreams {
			return 0, failed
		}
		return len(b), nil
	})), failed)
	assert.ErrorIs(t, third.Encode(io.Discard), ErrEncoded)
	s.Apply(l.entry(&commands.Tick{}))
	assert.Nil(t, s.running)
	assert.Equal(t, s.dump(), restore(t, encode(t, s.BeginSnapshot())).dump())
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// smallSnapshot holds one of everything.
func smallSnapshot(t require.TestingT) []byte {
	s, l := New(), &log{}
	s.Apply(l.register())
	s.Apply(l.commit([]commands.Append{
		{Create: &commands.Create{Name: "a", Config: stream.Config{ContentType: "text/plain"}}, Records: 3, Bytes: 9},
		{
			Create:  &commands.Create{Name: "b", Config: stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 9}}},
			Records: 1, Bytes: 5, HasProducer: true, Producer: stream.Producer{ID: "p"}, HasStreamSeq: true, StreamSeq: []byte("s"), Close: true,
		},
	}))
	for s.Index() < CheckpointInterval {
		s.Apply(l.entry(&commands.Tick{}))
	}
	s.Apply(l.commit([]commands.Append{{ID: 1, Records: 2, Bytes: 8}}))
	s.Apply(l.entry(&commands.Trim{ID: 1, To: 1}, &commands.Create{Name: "c", Config: stream.Config{
		Expiry: stream.Expiry{Kind: stream.ExpiresAt, At: -1},
	}}))
	return encode(t, s.BeginSnapshot())
}

// TestCorruption flips every bit and cuts at every byte of a snapshot: nothing
// of that is ever restored.
func TestCorruption(t *testing.T) {
	snapshot := smallSnapshot(t)
	restore(t, snapshot)
	for i := range snapshot {
		_, err := Restore(bytes.NewReader(snapshot[:i]))
		assert.Error(t, err, "cut at %d", i)
		for bit := range 8 {
			damaged := bytes.Clone(snapshot)
			damaged[i] ^= 1 << bit
			_, err := Restore(bytes.NewReader(damaged))
			assert.Error(t, err, "bit %d of byte %d", bit, i)
		}
	}
	_, err := Restore(bytes.NewReader(append(bytes.Clone(snapshot), 0)))
	assert.ErrorContains(t, err, "bytes follow")
	_, err = Restore(io.MultiReader(bytes.NewReader(snapshot), readerFunc(func([]byte) (int, error) { return 0, io.ErrNoProgress })))
	assert.ErrorIs(t, err, io.ErrNoProgress)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestRestoreChecksRules damages a state in ways that checksums cannot show.
func TestRestoreChecksRules(t *testing.T) {
	tests := []struct {
		name   string
		damage func(*State)
		want   string
	}{
		{"a digest that is wrong", func(s *State) { s.items++ }, "digest"},
		{"a tail past the extents", func(s *State) { damaged(s, 1).row().tail++ }, "extents of stream 1 end"},
		{"an extent of nothing", func(s *State) { (*damaged(s, 1).extents())[0].packed = 0 }, "extents of stream 1 end"},
		{"an extent nowhere", func(s *State) { (*damaged(s, 1).extents())[0].Segment = 99 }, "segment 99"},
		{"references that do not add up", func(s *State) { s.segments.at(0).rows[0].Referenced++ }, "segment 0 says"},
		{"a segment of nobody", func(s *State) { s.segments.at(0).rows[0].Epoch = 0 }, "no epoch"},
		{"a name twice", func(s *State) { damaged(s, 1).page.names[2] = "a" }, "one name"},
		{"a use in the future", func(s *State) { damaged(s, 2).row().touched = 1 << 60 }, "stream 2 breaks"},
		{"a limit out of range", func(s *State) { damaged(s, 2).row().limit = -1 }, "stream 2 breaks"},
		{"a closer of an open stream", func(s *State) { damaged(s, 2).row().flags = flagLive }, "stream 2 breaks"},
		{"a producer that did nothing", func(s *State) { damaged(s, 2).side().producers[0].known = 0 }, "stream 2 breaks"},
		{"a producer of the future", func(s *State) { damaged(s, 2).side().producers[0].first = 9 }, "stream 2 breaks"},
		{"a closer out of range", func(s *State) { damaged(s, 2).side().closer = 2 }, "at most 1"},
		{"a stream past the last", func(s *State) { s.lastDense = 2 }, ""},
		{"a node of the future", func(s *State) { s.nodes.list[0].Epoch = 1 << 40 }, "epoch"},
		{"sequences out of order", func(s *State) { s.nodes.list[0].used.spans = []span{{5, 4}} }, "not ascending"},
		{"sequences that touch", func(s *State) { s.nodes.list[0].used.spans = []span{{1, 2}, {3, 4}} }, "not ascending"},
		{"a checkpoint in between", func(s *State) { s.ring.list[0].at++ }, "checkpoint"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := restore(t, smallSnapshot(t))
			test.damage(s)
			_, err := Restore(bytes.NewReader(encode(t, s.BeginSnapshot())))
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func damaged(s *State, id stream.ID) place {
	p, _ := s.find(id)
	return p
}

// TestEmptySnapshot restores the state before the first entry.
func TestEmptySnapshot(t *testing.T) {
	s := restore(t, encode(t, New().BeginSnapshot()))
	assert.Equal(t, New().Digest(), s.Digest())
	assert.Equal(t, commands.Index(0), s.View().Index())
}

// FuzzRestore restores arbitrary bytes: an error, or a state that can be encoded
// and restored. Checksums are made to fit, or nothing would come past them.
func FuzzRestore(f *testing.F) {
	f.Add(smallSnapshot(f))
	f.Add(encode(f, New().BeginSnapshot()))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = withChecksums(data)
		s, err := Restore(bytes.NewReader(data))
		if err != nil {
			return
		}
		if s.items != s.recompute() {
			t.Fatal("the digest kept is not the digest of the state")
		}
		if again := restore(t, encode(t, s.BeginSnapshot())); again.dump() != s.dump() {
			t.Fatalf("restored\n%s\nof\n%s", again.dump(), s.dump())
		}
	})
}
