package fsck

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// TestPartsThatDoNotJoin: commands cannot make such a state, so parts stand for it.
func TestPartsThatDoNotJoin(t *testing.T) {
	type part struct{ first, end stream.Offset }
	for _, test := range []struct {
		start, tail stream.Offset
		parts       []part
		want        []string
	}{
		{0, 0, nil, nil},
		{5, 5, nil, nil},
		{2, 9, []part{{2, 4}, {4, 5}, {5, 9}}, nil},
		{2, 9, nil, []string{"gap: no extent holds its records 2 to 8"}},
		{2, 9, []part{{3, 9}}, []string{"gap: no extent holds its records 2"}},
		{2, 9, []part{{1, 9}}, []string{"overlap: two extents hold its records 1"}},
		{2, 9, []part{{2, 4}, {6, 9}}, []string{"gap: no extent holds its records 4 to 5"}},
		{2, 9, []part{{2, 7}, {4, 9}}, []string{"overlap: two extents hold its records 4 to 6"}},
		{2, 9, []part{{2, 9}, {4, 6}}, []string{"overlap: two extents hold its records 4 to 5"}},
		{2, 9, []part{{2, 4}, {4, 4}, {4, 9}}, []string{"gap: one of its extents holds nothing at record 4"}},
		{2, 9, []part{{2, 8}}, []string{"gap: no extent holds its records 8"}},
		{2, 9, []part{{2, 11}}, []string{"overlap: its extents go on to record 10, and its tail is 9"}},
	} {
		var got []string
		note := func(kind Kind, what string) {
			if kind != "" {
				got = append(got, string(kind)+": "+what)
			}
		}
		j := joint{at: test.start}
		for _, p := range test.parts {
			note(j.add(p.first, p.end))
		}
		note(j.end(test.tail))
		require.Equal(t, test.want, got, "%v", test.parts)
	}
}

// collect is a checker that collects what it finds.
func collect() (c *checker, found *[]Finding) {
	found = &[]Finding{}
	return &checker{Config: Config{Found: func(f Finding) { *found = append(*found, f) }}}, found
}

// TestAnExtentInNoSegment, or in one that is doomed.
func TestAnExtentInNoSegment(t *testing.T) {
	c, found := collect()
	st := &statemachine.Stream{ID: 1, Name: "a"}
	c.checkIn(st, &statemachine.Located{In: statemachine.Segment{Epoch: 1}})
	require.Empty(t, *found)
	c.checkIn(st, &statemachine.Located{Extent: statemachine.Extent{Segment: 7}})
	c.checkIn(st, &statemachine.Located{In: statemachine.Segment{Epoch: 1, Doomed: 5}})
	require.Len(t, *found, 2)
	require.Contains(t, (*found)[0].What, "slot 7, where there is no segment")
	require.Contains(t, (*found)[1].What, "which is doomed")
	require.Equal(t, `stream "a"`, (*found)[0].Object)
}

// TestReferencesThatDoNotAddUp.
func TestReferencesThatDoNotAddUp(t *testing.T) {
	refs := []reference{{id: 1, count: 2, bytes: 10}, {id: 2, ordinal: 2, count: 1, bytes: 5}}
	for _, test := range []struct {
		extents uint32
		bytes   uint64
		faults  int
	}{{2, 15, 0}, {1, 15, 1}, {2, 14, 1}, {3, 16, 1}} {
		c, found := collect()
		in := &statemachine.Slotted{Segment: statemachine.Segment{Extents: test.extents, Referenced: test.bytes}}
		(&object{checker: c, in: in, key: "key", refs: refs}).checkReferences()
		require.Len(t, *found, test.faults)
		for _, f := range *found {
			require.Equal(t, References, f.Kind)
		}
	}
}

// TestManyProblemsOfOneObject are told up to a bound.
func TestManyProblemsOfOneObject(t *testing.T) {
	c, found := collect()
	o := &object{checker: c, key: "key"}
	for range 100 {
		o.problem(Records, "something")
	}
	require.Len(t, *found, maxProblems)
	require.Equal(t, "there is more of this kind; the first: something", (*found)[maxProblems-1].What)
}

// TestTooManyMissing: with another bucket everything is missing.
func TestTooManyMissing(t *testing.T) {
	c, _ := collect()
	c.pending = make([]pending, maxPending)
	require.ErrorIs(t, c.postpone(Finding{}, &statemachine.Slotted{}), ErrIncomplete)
}
