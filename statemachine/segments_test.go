package statemachine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// accepted applies an entry of which every command must be accepted.
func accepted(t require.TestingT, s *State, e *commands.Entry) []Result {
	out := s.Apply(e).Proposals[0].Results
	for i, r := range out {
		require.Equal(t, Accepted, r.Verdict, "command %d: %v", i, e.Proposals[0].Commands[i].Kind())
	}
	return out
}

// commitEach makes one segment per append.
func commitEach(t require.TestingT, s *State, l *log, appends ...commands.Append) {
	for _, a := range appends {
		accepted(t, s, l.commit([]commands.Append{a}))
	}
}

// piece is an extent as a run names it.
func piece(e Extent) commands.Piece {
	return commands.Piece{Slot: e.Segment, Ordinal: e.Ordinal, Count: e.Count(), Cut: e.Cut()}
}

// TestSlotsAreUsedAgain empties slots in an order of its own: the lowest is given
// out first, whatever the order, and by a restored state as well.
func TestSlotsAreUsedAgain(t *testing.T) {
	const slots = 3 * pageRows
	s, l := New(), &log{}
	s.Apply(l.register())
	for range slots {
		accepted(t, s, l.commit(nil))
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(slots)
	for _, slot := range order {
		one := []uint32{uint32(slot)}
		accepted(t, s, l.entry(&commands.Doom{Slots: one}, &commands.Collected{Slots: one}))
	}
	assert.Equal(t, Counts{}, s.View().Counts())
	for n := range uint64(3) {
		assert.Nil(t, s.segments.at(n), "a page without segments stays")
	}
	for slot := range uint32(slots) {
		assert.Equal(t, slot, accepted(t, s, l.commit(nil))[0].Segment)
	}
	order = slices.DeleteFunc(order, func(slot int) bool { return slot < slots/2 || slot == slots-1 })
	for _, slot := range order {
		one := []uint32{uint32(slot)}
		accepted(t, s, l.entry(&commands.Doom{Slots: one}, &commands.Collected{Slots: one}))
	}
	restored := restore(t, encode(t, s.BeginSnapshot()))
	for slot := uint32(slots / 2); slot <= slots; slot++ {
		if slot == slots-1 {
			continue // it was in use all the time
		}
		e := l.commit(nil)
		assert.Equal(t, slot, accepted(t, s, e)[0].Segment)
		assert.Equal(t, slot, accepted(t, restored, e)[0].Segment)
	}
	assert.Equal(t, s.Digest(), restored.Digest())
	assert.Equal(t, s.items, s.recompute())
}

// TestSnapshotOfAPageThatCameBack: a page of segments is gone when a snapshot
// begins, and back before it is encoded.
func TestSnapshotOfAPageThatCameBack(t *testing.T) {
	s, l := New(), &log{}
	s.Apply(l.register())
	accepted(t, s, l.commit(nil))
	accepted(t, s, l.entry(&commands.Doom{Slots: []uint32{0}}, &commands.Collected{Slots: []uint32{0}}))
	require.Nil(t, s.segments.at(0))
	want := encode(t, s.BeginSnapshot())
	p := s.BeginSnapshot()
	accepted(t, s, l.commit(nil))
	require.NotNil(t, s.segments.at(0))
	assert.Equal(t, want, encode(t, p))
}

// churn appends, packs, dooms and collects: an entry's worth of what upkeep
// does, over many pages of segments.
func churn(t require.TestingT, s *State, l *log, rng *rand.Rand) {
	id := stream.ID(1 + rng.IntN(20))
	accepted(t, s, l.commit([]commands.Append{{ID: id, Records: 1, Bytes: 7}}))
	extents := s.View().Extents(id, 0, 1<<20)
	if len(extents) > 5 {
		run := commands.Run{ID: id, First: extents[1].First, Bytes: 21}
		for _, e := range extents[1:4] {
			run.Pieces = append(run.Pieces, piece(e.Extent))
		}
		out := accepted(t, s, l.entry(l.pack(0, 0)))
		accepted(t, s, l.entry(commands.NewSwap(out[0].Segment, l.sequence, []commands.Run{run})))
	}
	var dead, doomed []uint32
	segments, _ := s.View().Segments(0, 1<<20)
	for _, g := range segments {
		switch {
		case g.Doomed != 0:
			doomed = append(doomed, g.Slot)
		case g.Dead():
			dead = append(dead, g.Slot)
		}
	}
	s.Apply(l.entry(&commands.Trim{ID: 1 + stream.ID(rng.IntN(20)), To: stream.Offset(rng.IntN(9))}))
	s.Apply(l.entry(&commands.Collected{Slots: doomed[:min(len(doomed), 100)]}, &commands.Doom{Slots: dead[:min(len(dead), 100)]}))
}

// TestSnapshotInterleavedWithUpkeep changes segments between the chunks of a
// snapshot: they are moved into, removed, their pages dropped, slots used again.
func TestSnapshotInterleavedWithUpkeep(t *testing.T) {
	s, l := populate(t, 20)
	for i := range 4 * pageRows {
		a := []commands.Append{{ID: stream.ID(1 + i%20), Records: 1, Bytes: 7}}
		if i%2 == 0 && i > pageRows {
			a = nil
		}
		accepted(t, s, l.commit(a))
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		want := encode(t, s.BeginSnapshot())
		w := &slowly{step: func() {
			for range 20 {
				churn(t, s, l, rng)
			}
		}}
		require.NoError(t, s.BeginSnapshot().Encode(w))
		require.Equal(t, want, w.Bytes())
		s.Apply(l.entry(&commands.Tick{}))
		require.Nil(t, s.running)
		require.Equal(t, s.items, s.recompute())
		require.Equal(t, s.dump(), restore(t, encode(t, s.BeginSnapshot())).dump())
	}
	assert.Greater(t, s.counts.Slots, s.counts.Segments, "slots were emptied")
}

// TestReadersFindTheSegment reads while extents move and slots are used again:
// what comes with an extent is always the segment that holds it. The sequence of
// a segment tells which stream it is for.
func TestReadersFindTheSegment(t *testing.T) {
	const streams, rounds = 40, 300
	s, l := New(), &log{}
	s.Apply(l.register())
	for i := range streams {
		accepted(t, s, l.entry(&commands.Create{Name: benchName(i)}))
	}
	sequence := func(id stream.ID, n int) uint64 { return uint64(n)<<8 | uint64(id) }
	var done atomic.Bool
	var readers sync.WaitGroup
	for reader := range 2 {
		readers.Go(func() {
			scan := NewRetentionScan(stream.Retention{Age: 1, Bytes: 10})
			for i := reader; !done.Load(); i++ {
				id := stream.ID(1 + i%streams)
				for _, e := range s.View().Extents(id, 0, 100) {
					if e.In.Epoch == 0 || stream.ID(e.In.Sequence&0xff) != id || e.In.Doomed != 0 {
						t.Errorf("stream %d has an extent in %+v", id, e.In)
					}
				}
				s.View().Segments(0, 100)
				scan.Step(s.View(), 100, s.View().LogTime())
				s.View().Holders(0, streams, func(uint32) bool { return true }, 10)
			}
		})
	}
	var used, dead []uint32
	for round := range rounds {
		id := stream.ID(1 + round%streams)
		var run commands.Run
		for part := range 2 {
			out := accepted(t, s, l.entry(commands.NewCommitSegment(sequence(id, 3*round+part), 100, []commands.Append{{ID: id, Records: 1, Bytes: 9}}, nil)))
			used = append(used, out[0].Segment)
		}
		for _, e := range s.View().Extents(id, 0, 100) {
			run.Pieces = append(run.Pieces, piece(e.Extent))
		}
		run.ID, run.Bytes = id, 18
		pack := l.pack(0, 0)
		pack.Sequence = sequence(id, 3*round+2)
		slot := accepted(t, s, l.entry(pack))[0].Segment
		used = append(used, slot)
		accepted(t, s, l.entry(commands.NewSwap(slot, pack.Sequence, []commands.Run{run})))
		s.Apply(l.entry(&commands.Collected{Slots: dead}, &commands.Doom{Slots: used}))
		used, dead = used[max(0, len(used)-200):], used
	}
	done.Store(true)
	readers.Wait()
	assert.Less(t, s.counts.Slots, uint64(4*streams), "slots are used again")
	assert.Equal(t, s.items, s.recompute())
}

// swapped is a stream of four segments of two records each, and an empty packed
// segment in slot 4.
func swapped(t require.TestingT) (*State, *log) {
	s, l := New(), &log{}
	s.Apply(l.register())
	commitEach(t, s, l,
		commands.Append{Create: &commands.Create{Name: "a"}, Records: 2, Bytes: 10},
		commands.Append{ID: 1, Records: 2, Bytes: 10},
		commands.Append{ID: 1, Records: 2, Bytes: 10},
		commands.Append{ID: 1, Records: 2, Bytes: 10},
	)
	accepted(t, s, l.entry(l.pack(0, s.logTime)))
	return s, l
}

// TestSwapRefusesRuns holds runs that are not what is there, or would break a
// rule of the state, against it.
func TestSwapRefusesRuns(t *testing.T) {
	two := func(slot uint32) commands.Piece { return commands.Piece{Slot: slot, Count: 2} }
	run := func(first stream.Offset, ordinal uint32, pieces ...commands.Piece) commands.Run {
		return commands.Run{ID: 1, First: first, Ordinal: ordinal, Bytes: 20, Pieces: pieces}
	}
	const top = commands.MaxSegmentRecords
	tests := map[string]struct {
		runs    []commands.Run
		applied uint32
		extents int
	}{
		"all":                             {[]commands.Run{run(0, 0, two(0), two(1), two(2), two(3))}, 1, 1},
		"in two that join":                {[]commands.Run{run(0, 0, two(0), two(1)), run(4, 4, two(2), two(3))}, 2, 1},
		"in two that join, backwards":     {[]commands.Run{run(4, 4, two(2), two(3)), run(0, 0, two(0), two(1))}, 2, 1},
		"from both ends to the middle":    {[]commands.Run{run(0, 0, two(0)), run(6, 6, two(3)), run(2, 2, two(1), two(2))}, 3, 1},
		"one by one, and none joins":      {[]commands.Run{run(0, 9, two(0)), run(2, 7, two(1)), run(4, 5, two(2)), run(6, 3, two(3))}, 4, 4},
		"the same twice":                  {[]commands.Run{run(0, 0, two(0)), run(0, 0, two(0))}, 1, 4},
		"the same again, elsewhere":       {[]commands.Run{run(0, 0, two(0)), run(0, 2, two(0))}, 1, 4},
		"runs that overlap":               {[]commands.Run{run(0, 0, two(0), two(1)), run(2, 2, two(1), two(2))}, 1, 3},
		"runs that overlap, backwards":    {[]commands.Run{run(2, 2, two(1), two(2)), run(0, 0, two(0), two(1))}, 1, 3},
		"a piece twice in a run":          {[]commands.Run{run(0, 0, two(0), two(0))}, 0, 4},
		"the target as a piece":           {[]commands.Run{run(0, 0, two(0)), run(0, 2, two(4))}, 1, 4},
		"what the first run made":         {[]commands.Run{run(0, 0, two(0)), run(0, 2, two(4), two(1))}, 1, 4},
		"the same ordinals":               {[]commands.Run{run(0, 0, two(0)), run(2, 0, two(1))}, 2, 4},
		"half a piece":                    {[]commands.Run{run(0, 0, commands.Piece{Slot: 0, Count: 1})}, 0, 4},
		"the other half":                  {[]commands.Run{run(1, 0, commands.Piece{Slot: 0, Ordinal: 1, Count: 1})}, 0, 4},
		"one piece too many":              {[]commands.Run{run(4, 0, two(2), two(3), two(0))}, 0, 4},
		"a piece of too many":             {[]commands.Run{run(0, 0, commands.Piece{Slot: 0, Count: 3})}, 0, 4},
		"a cut piece that is not":         {[]commands.Run{run(0, 0, commands.Piece{Slot: 0, Count: 1, Cut: true})}, 0, 4},
		"another ordinal":                 {[]commands.Run{run(0, 0, commands.Piece{Slot: 0, Ordinal: 1, Count: 2})}, 0, 4},
		"another segment":                 {[]commands.Run{run(0, 0, two(1))}, 0, 4},
		"a slot that never was":           {[]commands.Run{run(0, 0, two(1<<32-1))}, 0, 4},
		"another offset":                  {[]commands.Run{run(1, 0, two(0))}, 0, 4},
		"beyond the tail":                 {[]commands.Run{run(8, 0, two(0))}, 0, 4},
		"at the last offset":              {[]commands.Run{run(stream.MaxOffset, 0, two(0))}, 0, 4},
		"as many records as can be":       {[]commands.Run{run(0, 0, commands.Piece{Slot: 0, Count: top})}, 0, 4},
		"to the last offset with as many": {[]commands.Run{run(stream.MaxOffset, 0, commands.Piece{Slot: 0, Count: top})}, 0, 4},
		"the last ordinals":               {[]commands.Run{run(0, top-2, two(0))}, 1, 4},
		"no stream":                       {[]commands.Run{{ID: 0, Pieces: []commands.Piece{two(0)}}, {ID: 2, Pieces: []commands.Piece{two(0)}}}, 0, 4},
		"a stream of another log":         {[]commands.Run{{ID: stream.MakeID(1, 1), Pieces: []commands.Piece{two(0)}}}, 0, 4},
		"nothing":                         {nil, 0, 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, l := swapped(t)
			e := l.entry(commands.NewSwap(4, l.sequence, test.runs))
			payload, err := commands.DecodePayload(e.Encode())
			require.NoError(t, err)
			e.Payload = payload
			before := content(s)
			out := s.Apply(e).Proposals[0].Results[0]
			assert.Equal(t, test.applied, out.Removed)
			st, _ := s.View().Stream(1)
			assert.Equal(t, test.extents, st.Extents, s.dump())
			if test.applied == 0 {
				assert.Equal(t, NotDue, out.Verdict)
				assert.Equal(t, before, content(s))
			}
			assert.Equal(t, s.items, s.recompute())
			assert.Equal(t, s.dump(), restore(t, encode(t, s.BeginSnapshot())).dump())
		})
	}
}

// content is the part of a dump that is about segments and streams.
func content(s *State) string {
	_, rest, _ := strings.Cut(s.dump(), "segment 0")
	return rest
}

// TestSwapInto tries packed segments that are not the proposer's, or are none.
func TestSwapInto(t *testing.T) {
	runs := []commands.Run{{ID: 1, Pieces: []commands.Piece{{Slot: 0, Count: 2}}}}
	verdictOf := func(s *State, e *commands.Entry) Verdict { return s.Apply(e).Proposals[0].Results[0].Verdict }
	s, l := swapped(t)
	packed := l.sequence
	assert.Equal(t, NotFound, verdictOf(s, l.entry(commands.NewSwap(5, packed, runs))), "no such slot")
	assert.Equal(t, NotFound, verdictOf(s, l.entry(commands.NewSwap(4, packed+1, runs))), "another sequence")
	assert.Equal(t, NotFound, verdictOf(s, l.entry(commands.NewSwap(3, packed-1, runs))), "a segment of appends")
	tooMany := commands.NewSwap(4, packed, runs)
	tooMany.Count = commands.MaxRuns + 1
	assert.Equal(t, Invalid, verdictOf(s, l.entry(tooMany)))

	accepted(t, s, l.entry(&commands.Doom{Slots: []uint32{4}}))
	assert.Equal(t, NotFound, verdictOf(s, l.entry(commands.NewSwap(4, packed, runs))), "doomed")
	accepted(t, s, l.entry(&commands.Collected{Slots: []uint32{4}}))
	assert.Equal(t, NotFound, verdictOf(s, l.entry(commands.NewSwap(4, packed, runs))), "collected")
	accepted(t, s, l.entry(l.pack(0, 0)))
	assert.Equal(t, NotFound, verdictOf(s, l.entry(commands.NewSwap(4, packed, runs))), "another in its slot")
	assert.Equal(t, Accepted, verdictOf(s, l.entry(commands.NewSwap(4, l.sequence, runs))))

	// The same node, after it registered again.
	s.Apply(&commands.Entry{Index: s.Index() + 1, DatabaseTime: s.logTime, Payload: commands.Payload{
		Clock: s.logTime, Proposals: []commands.Proposal{{
			Origin:   commands.RegistrationOrigin(commands.Incarnation{2}),
			Commands: []commands.Command{&commands.RegisterNode{Node: 1, Incarnation: commands.Incarnation{2}, Level: firstLevel}},
		}},
	}})
	out := s.Apply(&commands.Entry{Index: s.Index() + 1, DatabaseTime: s.logTime, Payload: commands.Payload{
		Clock: s.logTime, Proposals: []commands.Proposal{{
			Origin: commands.Origin{Node: 1, Epoch: commands.Epoch(s.Index()), Seq: 1},
			Commands: []commands.Command{commands.NewSwap(4, l.sequence, []commands.Run{
				{ID: 1, First: 2, Ordinal: 2, Pieces: []commands.Piece{{Slot: 1, Count: 2}}},
			})},
		}},
	}})
	assert.Equal(t, NotFound, out.Proposals[0].Results[0].Verdict, "of an epoch before")
}

// TestSwapAcrossATrim applies a run of which a trim has taken every number of
// records since it was proposed.
func TestSwapAcrossATrim(t *testing.T) {
	for to := range stream.Offset(9) {
		s, l := swapped(t)
		run := commands.Run{ID: 1, First: 2, Ordinal: 100, Bytes: 40, Pieces: []commands.Piece{{Slot: 1, Count: 2}, {Slot: 2, Count: 2}}}
		accepted(t, s, l.entry(&commands.Trim{ID: 1, To: to}))
		out := s.Apply(l.entry(commands.NewSwap(4, l.sequence, []commands.Run{run})))
		require.Equal(t, to < 6, out.Proposals[0].Results[0].Removed == 1, "trimmed to %d", to)
		for _, e := range s.View().Extents(1, max(to, 2), 1) {
			if to < 6 {
				require.Equal(t, max(to, 2), e.First)
				require.Equal(t, stream.Offset(6), e.End())
				require.Equal(t, uint32(100+e.First-2), e.Ordinal)
				require.Equal(t, uint32(10*(6-e.First)), e.Bytes, "bytes go in proportion")
			}
		}
		require.Equal(t, s.items, s.recompute())
		require.Equal(t, s.dump(), restore(t, encode(t, s.BeginSnapshot())).dump())
	}
}

// TestHandMadeSwaps applies swaps that no decoder would let through.
func TestHandMadeSwaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, l := swapped(t)
		column := rapid.SliceOfN(rapid.OneOf(rapid.ByteRange(0, 8), rapid.Byte()), 0, 9)
		m := &commands.Swap{
			Slot: 4, Sequence: l.sequence, Count: rapid.Uint32Range(0, 6).Draw(t, "count"),
			IDs: column.Draw(t, "ids"), Firsts: column.Draw(t, "firsts"), Ordinals: column.Draw(t, "ordinals"),
			Bytes: column.Draw(t, "bytes"), Lengths: column.Draw(t, "lengths"), Slots: column.Draw(t, "slots"),
			Froms: column.Draw(t, "froms"), Counts: column.Draw(t, "counts"),
		}
		s.Apply(l.entry(m))
		if s.items != s.recompute() {
			t.Fatal("the digest kept is not the digest of the state")
		}
		restore(t, encode(t, s.BeginSnapshot()))
	})
}

// TestCountsOfSegments follows one segment from its commit to its slot's next.
func TestCountsOfSegments(t *testing.T) {
	s, l := New(), &log{}
	s.Apply(l.register())
	counts := func() string {
		c := s.View().Counts()
		return fmt.Sprintf("%d of %d slots, %d bytes, %d referenced by %d; dead %d, %d bytes; doomed %d",
			c.Segments, c.Slots, c.SegmentBytes, c.Referenced, c.Extents, c.Dead, c.DeadBytes, c.Doomed)
	}
	step := func(want string, e *commands.Entry) {
		s.Apply(e)
		assert.Equal(t, want, counts())
	}
	commit := func(a ...commands.Append) *commands.Entry {
		l.sequence++
		return l.entry(commands.NewCommitSegment(l.sequence, 100, a, nil))
	}
	step("1 of 1 slots, 100 bytes, 20 referenced by 1; dead 0, 0 bytes; doomed 0",
		commit(commands.Append{Create: &commands.Create{Name: "a"}, Records: 2, Bytes: 20}))
	step("1 of 1 slots, 100 bytes, 40 referenced by 2; dead 0, 0 bytes; doomed 0",
		l.entry(&commands.Create{Name: "b", Fork: &commands.Fork{Parent: 1}}))
	step("1 of 1 slots, 100 bytes, 30 referenced by 2; dead 0, 0 bytes; doomed 0", l.entry(&commands.Trim{ID: 1, To: 1}))
	step("1 of 1 slots, 100 bytes, 10 referenced by 1; dead 0, 0 bytes; doomed 0", l.entry(&commands.Delete{ID: 2}))
	step("2 of 2 slots, 200 bytes, 10 referenced by 1; dead 1, 100 bytes; doomed 0", commit())
	pack := l.pack(0, 0)
	pack.Size = 50
	step("3 of 3 slots, 250 bytes, 10 referenced by 1; dead 2, 150 bytes; doomed 0", l.entry(pack))
	step("3 of 3 slots, 250 bytes, 7 referenced by 1; dead 2, 200 bytes; doomed 0", l.entry(commands.NewSwap(2, l.sequence, []commands.Run{
		{ID: 1, First: 1, Ordinal: 3, Bytes: 7, Pieces: []commands.Piece{{Slot: 0, Ordinal: 1, Count: 1}}},
	})))
	step("3 of 3 slots, 250 bytes, 7 referenced by 1; dead 2, 200 bytes; doomed 1", l.entry(&commands.Doom{Slots: []uint32{0, 0, 2, 9}}))
	step("2 of 3 slots, 150 bytes, 7 referenced by 1; dead 1, 100 bytes; doomed 0", l.entry(&commands.Collected{Slots: []uint32{0, 0, 1, 2, 9}}))
	step("3 of 3 slots, 250 bytes, 7 referenced by 1; dead 2, 200 bytes; doomed 0", commit())
	step("3 of 3 slots, 250 bytes, 0 referenced by 0; dead 3, 250 bytes; doomed 0", l.entry(&commands.Delete{ID: 1}))
	assert.Equal(t, s.View().Counts(), restore(t, encode(t, s.BeginSnapshot())).View().Counts())
}
