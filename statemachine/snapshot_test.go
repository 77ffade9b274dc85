package statemachine

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
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
	at := stream.Offset(3)
	s.Apply(l.commit([]commands.Append{
		{Create: &commands.Create{Name: "d", Fork: &commands.Fork{Parent: 1, At: &at, Sub: 2, Cut: 2}}, Records: 1, Bytes: 7},
		{Create: &commands.Create{Name: "e", Fork: &commands.Fork{Parent: 4}}, Records: 1, Bytes: 7},
		{Create: &commands.Create{Name: "f", Fork: &commands.Fork{Parent: 1}}, Records: 1, Bytes: 7},
	}))
	s.Apply(l.entry(
		&commands.Delete{ID: 4}, // stays for e
		&commands.Create{Name: "g", Config: stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresAt, At: s.logTime + 20}}},
		&commands.Create{Name: "h", Fork: &commands.Fork{Parent: 7}, Config: stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 9}}},
	))
	s.Apply(l.entry(&commands.Expire{IDs: []stream.ID{7}})) // h has no parent
	smallSegments(t, s, l)
	leaver := l.entry(&commands.RegisterNode{Incarnation: commands.Incarnation{2}, Level: firstLevel, Address: "gone:1"})
	leaver.Proposals[0].Origin = commands.RegistrationOrigin(commands.Incarnation{2})
	s.Apply(leaver)
	s.Apply(l.entry(&commands.Depart{Node: 2, Epoch: commands.Epoch(s.Index())}))
	return encode(t, s.BeginSnapshot())
}

// The slots of the small snapshot that hold no segment of appends.
const (
	doomedSlot = 3
	emptySlot  = 4
	packedSlot = 6
)

// smallSegments appends to a stream with retention and packs what it has.
func smallSegments(t require.TestingT, s *State, l *log) {
	first := s.logTime + 10
	s.Apply(l.commit([]commands.Append{{
		Create:  &commands.Create{Name: "i", Config: stream.Config{Retention: stream.Retention{Age: 60, Bytes: 1000}}},
		Records: 2, Bytes: 30,
	}}))
	s.Apply(l.commit([]commands.Append{{ID: 9, Records: 1, Bytes: 20}}))
	s.Apply(l.commit([]commands.Append{{ID: 9, Records: 4, Bytes: 40}}))
	out := s.Apply(l.entry(l.pack(first, first+10), commands.NewSwap(packedSlot, l.sequence, []commands.Run{{
		ID: 9, Ordinal: 5, Bytes: 44, Pieces: []commands.Piece{{Slot: doomedSlot, Count: 2}, {Slot: emptySlot, Count: 1}},
	}}), &commands.Doom{Slots: []uint32{doomedSlot, emptySlot}}, &commands.Collected{Slots: []uint32{emptySlot}}))
	for _, r := range out.Proposals[0].Results {
		require.Equal(t, Accepted, r.Verdict)
	}
}

// TestGoldenSnapshot holds the bytes of a snapshot: what a release wrote, every
// later one reads, and of the same state it writes the same.
func TestGoldenSnapshot(t *testing.T) {
	const file = "testdata/snapshot-v1.hex"
	got := smallSnapshot(t)
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(hex.Dump(got)), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), hex.Dump(got))

	s := restore(t, got)
	require.Equal(t, got, encode(t, s.BeginSnapshot()))
	kept, _ := s.View().Lookup("d")
	require.Equal(t, Stream{
		ID: 4, Name: "d", Config: stream.Config{ContentType: "text/plain"}, Created: kept.Created, Start: 5, Tail: 5, Deleted: true,
		Fork: &stream.Fork{Parent: 1, From: "a", At: 3, Sub: 2, End: 4}, Forks: 1,
	}, kept)
	fork, _ := s.View().Lookup("e")
	require.Equal(t, Stream{
		ID: 5, Name: "e", Config: stream.Config{ContentType: "text/plain"}, Created: fork.Created, Start: 1, Tail: 6, Extents: 3,
		Fork: &stream.Fork{Parent: 4, From: "d", At: 5, End: 5},
	}, fork)
	require.Equal(t, Extent{First: 3, Segment: 1, Ordinal: 0, Bytes: 2, packed: 5}, s.View().Extents(5, 3, 1)[0].Extent)
	orphan, _ := s.View().Lookup("h")
	require.Equal(t, &stream.Fork{Parent: 7, From: "g"}, orphan.Fork)
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
