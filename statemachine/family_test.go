package statemachine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

func generationName(i int) stream.Name { return stream.Name(fmt.Sprint("generation/", i)) }

// dynasty is a chain of streams, each the fork of the one before, of which all
// but the last were deleted. Every hundredth has a record of its own.
func dynasty(t testing.TB, length int) (*State, *log) {
	s, l := New(), &log{}
	s.Apply(l.register())
	s.Apply(l.commit([]commands.Append{{Create: &commands.Create{Name: generationName(1)}, Records: 1, Bytes: 5}}))
	for i := 2; i <= length; i++ {
		parent := stream.ID(i - 1)
		create := &commands.Create{Name: generationName(i), Fork: &commands.Fork{Parent: parent}}
		var command commands.Command = create
		if i%100 == 0 {
			command = commands.NewCommitSegment(uint64(i), 100, []commands.Append{{Create: create, Records: 1, Bytes: 5}}, nil)
		}
		out := s.Apply(l.entry(command, &commands.Delete{ID: parent}))
		require.Equal(t, Accepted, out.Proposals[0].Results[0].Verdict)
		require.Equal(t, Accepted, out.Proposals[0].Results[1].Verdict)
	}
	return s, l
}

// TestLongDynasty forks a thousand generations: the last has a record of each
// hundredth, and takes all of them along.
func TestLongDynasty(t *testing.T) {
	const length = 1000
	s, l := dynasty(t, length)
	v := s.View()
	last, _ := v.Stream(length)
	assert.Equal(t, stream.Offset(1+length/100), last.Tail)
	const commits = 1 + length/100
	assert.Equal(t, Counts{
		Streams: length, Deleted: length - 1, Slots: commits, Segments: commits, Extents: commits,
		SegmentBytes: 1<<30 + (commits-1)*100, Referenced: commits * 5,
	}, v.Counts())
	assert.Equal(t, s.dump(), restore(t, encode(t, s.BeginSnapshot())).dump())

	out := s.Apply(l.entry(&commands.Delete{ID: length}))
	assert.Len(t, out.Changed, length)
	bytes := v.Counts().SegmentBytes
	assert.Equal(t, Counts{Slots: commits, Segments: commits, SegmentBytes: bytes, Dead: commits, DeadBytes: bytes}, v.Counts())
	assert.Equal(t, s.items, s.recompute())
}

// streamCounts are a view's counts, without those of segments that nothing
// refers to any more.
func streamCounts(v View) Counts {
	c := v.Counts()
	c.Slots, c.Segments, c.Dead, c.SegmentBytes, c.DeadBytes = 0, c.Segments-c.Dead, 0, c.SegmentBytes-c.DeadBytes, 0
	return c
}

// TestCascadeIsBounded removes more deleted generations than one entry may.
func TestCascadeIsBounded(t *testing.T) {
	const length, left = maxCascade + 4, 3
	s, l := dynasty(t, length)
	v := s.View()
	assert.False(t, v.HasExpiring())
	out := s.Apply(l.entry(&commands.Delete{ID: length}))
	assert.Len(t, out.Changed, 1+maxCascade)
	assert.Equal(t, Counts{Streams: left, Deleted: left, Expiring: 1}, streamCounts(v))
	assert.True(t, v.HasExpiring(), "what is left must be found without a request")
	due, _ := v.Due(0, 1<<20)
	assert.Equal(t, []stream.ID{left}, due, "only the last has no fork left")
	for id := stream.ID(1); id <= left; id++ {
		st, ok := v.Lookup(generationName(int(id)))
		assert.True(t, ok)
		assert.True(t, st.Deleted)
		assert.Equal(t, id == left, st.ExpiredAt(v.ActiveTime(), v.LogTime()))
	}
	assert.Equal(t, s.items, s.recompute())
	snapshot := encode(t, s.BeginSnapshot())

	t.Run("absent to commands", func(t *testing.T) {
		s, l := restore(t, snapshot), *l
		want := map[commands.Command]Verdict{
			&commands.Create{Name: "x", Fork: &commands.Fork{Parent: left}}:     ParentGone,
			&commands.Create{Name: "x", Fork: &commands.Fork{Parent: left - 1}}: ParentDeleted,
			&commands.Close{ID: left}:               NotFound,
			&commands.Trim{ID: left}:                NotFound,
			&commands.Delete{ID: left}:              NotFound,
			&commands.Delete{ID: left - 1}:          Deleted,
			&commands.Touch{IDs: []stream.ID{left}}: Accepted,
			commands.NewCommitSegment(1<<20, 10, []commands.Append{{ID: left, Records: 1}}, nil): Accepted,
		}
		for command, verdict := range want {
			result := s.Apply(l.entry(command)).Proposals[0].Results[0]
			assert.Equal(t, verdict, result.Verdict, "%T", command)
			for _, a := range result.Appends {
				assert.Equal(t, NotFound, a.Verdict)
			}
		}
		assert.Equal(t, uint64(left), s.View().Counts().Deleted)
	})
	t.Run("expire", func(t *testing.T) {
		s, l := restore(t, snapshot), *l
		out := s.Apply(l.entry(&commands.Expire{IDs: due}))
		assert.Equal(t, uint32(1), out.Proposals[0].Results[0].Removed, "of those it names")
		assert.Equal(t, []stream.ID{3, 2, 1}, out.Changed)
		assert.Equal(t, Counts{}, streamCounts(s.View()))
		assert.Equal(t, s.items, s.recompute())
	})
	t.Run("create", func(t *testing.T) {
		s, l := restore(t, snapshot), *l
		out := s.Apply(l.entry(&commands.Create{Name: generationName(2)}, &commands.Create{Name: generationName(left)}, &commands.Create{Name: generationName(2)}))
		results := out.Proposals[0].Results
		assert.Equal(t, Deleted, results[0].Verdict)
		assert.Equal(t, Accepted, results[1].Verdict)
		assert.Equal(t, Accepted, results[2].Verdict)
		assert.Equal(t, uint64(2), s.View().Counts().Streams)
		assert.False(t, s.View().HasExpiring())
		assert.Equal(t, s.items, s.recompute())
	})
}

// TestCascadesShareTheirBound deletes the last of several dynasties in one
// entry: together they remove no more than one would.
func TestCascadesShareTheirBound(t *testing.T) {
	const families, length = 3, maxCascade/2 + 1 // the last of each lives
	s, l := New(), &log{}
	s.Apply(l.register())
	id := stream.ID(0)
	var last []commands.Command
	for family := range families {
		for i := range length {
			m := &commands.Create{Name: stream.Name(fmt.Sprint(family, "/", i))}
			if i > 0 {
				m.Fork = &commands.Fork{Parent: id}
			}
			s.Apply(l.entry(m))
			if i > 0 {
				s.Apply(l.entry(&commands.Delete{ID: id}))
			}
			id++
		}
		last = append(last, &commands.Delete{ID: id})
	}
	s.Apply(l.entry(last...))
	v := s.View()
	assert.Equal(t, uint64(length-1), v.Counts().Deleted)
	due, _ := v.Due(0, 1<<20)
	assert.Equal(t, []stream.ID{id - 1}, due)
	out := s.Apply(l.entry(&commands.Expire{IDs: due}))
	assert.Len(t, out.Changed, length-1)
	assert.Equal(t, Counts{}, v.Counts())
	assert.Equal(t, s.items, s.recompute())
}

// TestManyForks makes a thousand forks of one stream, deletes it, and then them.
func TestManyForks(t *testing.T) {
	const forks = 1000
	s, l := populate(t, 1)
	for i := range forks {
		s.Apply(l.entry(&commands.Create{Name: generationName(i), Fork: &commands.Fork{Parent: 1}}))
	}
	v := s.View()
	st, _ := v.Stream(1)
	assert.Equal(t, uint32(forks), st.Forks)
	segment, _ := v.Segment(0)
	assert.Equal(t, uint32(1+forks), segment.Extents)
	assert.Equal(t, uint64(100*(1+forks)), segment.Referenced)

	s.Apply(l.entry(&commands.Delete{ID: 1}))
	assert.Equal(t, s.dump(), restore(t, encode(t, s.BeginSnapshot())).dump())
	for i := range forks {
		_, kept := v.Stream(1)
		assert.True(t, kept)
		s.Apply(l.entry(&commands.Delete{ID: stream.ID(2 + i)}))
	}
	assert.Equal(t, Counts{}, streamCounts(v))
	segment, _ = v.Segment(0)
	assert.Zero(t, segment.Extents)
	assert.Zero(t, segment.Referenced)
	assert.Equal(t, s.items, s.recompute())
}

// TestTooManyForks reaches the end of the count.
func TestTooManyForks(t *testing.T) {
	s, l := populate(t, 1)
	fork := func(name stream.Name) AppendResult {
		return s.Apply(l.entry(&commands.Create{Name: name, Fork: &commands.Fork{Parent: 1}})).Proposals[0].Results[0].AppendResult
	}
	assert.Equal(t, Accepted, fork("a").Verdict)
	damaged(s, 1).side().forks = 1<<32 - 2
	assert.Equal(t, Accepted, fork("b").Verdict)
	assert.Equal(t, Full, fork("c").Verdict)
}

// TestForkHasItsOwnExtents looks at what the parent's array of extents and the
// fork's have in common: nothing that a change of one would show in the other.
func TestForkHasItsOwnExtents(t *testing.T) {
	s, l := populate(t, 1)
	for range 3 {
		s.Apply(l.commit([]commands.Append{{ID: 1, Records: 2, Bytes: 20}}))
	}
	s.Apply(l.entry(&commands.Create{Name: "a", Fork: &commands.Fork{Parent: 1}}))
	parent, fork := *damaged(s, 1).extents(), *damaged(s, 2).extents()
	require.Equal(t, parent, fork)
	for _, change := range [][]commands.Append{{{ID: 1, Records: 1, Bytes: 9}}, {{ID: 2, Records: 1, Bytes: 9}}} {
		s.Apply(l.commit(change))
	}
	s.Apply(l.entry(&commands.Trim{ID: 1, To: 2}))
	assert.Equal(t, stream.Offset(0), s.View().Extents(2, 0, 1)[0].First)
	s.Apply(l.entry(&commands.Trim{ID: 2, To: 4}))
	assert.Equal(t, stream.Offset(2), s.View().Extents(1, 0, 1)[0].First)
	assert.Equal(t, s.items, s.recompute())
}
