package statemachine

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/stream"
)

// TestAgainstModel applies random entries to the machine and to the model and
// compares, after each, every result and everything that can be seen. Now and
// then the machine is one restored from its snapshot.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, m := New(), newModel()
		for range rapid.IntRange(1, 60).Draw(t, "entries") {
			e := drawEntry(t, s)
			want, got := m.apply(e), s.Apply(e)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("entry %d (-model +machine):\n%s\n%s", e.Index, diff, s.dump())
			}
			if s.items != s.recompute() {
				t.Fatalf("entry %d: the digest kept is not the digest of the state\n%s", e.Index, s.dump())
			}
			compareVisible(t, m, s.View())
			if rapid.IntRange(1, 15).Draw(t, "restart?") == 1 {
				s = restore(t, encode(t, s.BeginSnapshot()))
				compareVisible(t, m, s.View())
			}
		}
	})
}

// compareVisible compares what a view shows with the model.
func compareVisible(t require.TestingT, m *model, v View) {
	require.Equal(t, m.index, v.Index())
	require.Equal(t, m.logTime, v.LogTime())
	require.Equal(t, m.activeTime, v.ActiveTime())
	require.Equal(t, m.level, v.Level())
	compareNodes(t, m, v)
	names := slices.Sorted(maps.Keys(m.streams))
	page, more := v.List("", "", 100)
	require.False(t, more)
	require.Len(t, page, len(names))
	counts := Counts{Streams: uint64(len(names))}
	references := map[segmentName]Segment{}
	var due []stream.ID
	for i, name := range names {
		want := m.streams[name]
		got, ok := v.Lookup(name)
		require.True(t, ok)
		require.Equal(t, got, page[i])
		info := want.info
		info.Forks = m.liveForks(want)
		require.Equal(t, info, got.Info())
		require.Equal(t, want.deleted, got.Deleted)
		require.Equal(t, m.due(want), got.ExpiredAt(v.ActiveTime(), v.LogTime()))
		if m.due(want) {
			due = append(due, got.ID)
		}
		if want.info.Config.Expiry.Kind != stream.ExpiresNever {
			counts.Expiring++
		}
		if want.deleted {
			counts.Deleted++
		}
		if want.info.Config.Retention != (stream.Retention{}) {
			counts.Retained++
		}
		extents := v.Extents(got.ID, 0, 1000)
		require.Len(t, extents, got.Extents)
		require.True(t, slices.Equal(want.records, flatten(extents)), "%s: %v\n%v", name, want.records, extents)
		for i, e := range extents {
			g := references[nameOf(&e.In)]
			g.Extents++
			g.Referenced += uint64(e.Bytes)
			references[nameOf(&e.In)] = g
			require.False(t, i > 0 && extents[i-1].continues(e.Extent), "%s: two extents that are one", name)
		}
		counts.Extents += uint64(len(extents))
		counts.Producers += uint64(len(want.producers))
	}
	slices.Sort(due)
	found, next := v.Due(0, 1000)
	require.Zero(t, next)
	require.Equal(t, due, found)
	inSlots := m.count(references)
	inSlots.Streams, inSlots.Deleted, inSlots.Expiring = counts.Streams, counts.Deleted, counts.Expiring
	inSlots.Retained, inSlots.Extents, inSlots.Producers = counts.Retained, counts.Extents, counts.Producers
	require.Equal(t, inSlots, v.Counts())
	compareSegments(t, m, v, references)
}

func compareNodes(t require.TestingT, m *model, v View) {
	list := v.Nodes()
	require.Len(t, list, len(m.nodes))
	for i, n := range list {
		want := m.nodes[n.Node]
		require.NotNil(t, want)
		require.False(t, i > 0 && list[i-1].Node >= n.Node)
		require.Equal(t, []any{want.epoch, want.incarnation, want.level, want.last, want.gone},
			[]any{n.Epoch, n.Incarnation, n.Level, n.LastSeq, n.Gone})
	}
}

func compareSegments(t require.TestingT, m *model, v View, references map[segmentName]Segment) {
	var all []Slotted
	for slot, g := range m.segments {
		got, ok := v.Segment(uint32(slot))
		require.Equal(t, g != nil, ok)
		if g == nil {
			continue
		}
		want := *g
		want.Extents, want.Referenced = references[nameOf(g)].Extents, references[nameOf(g)].Referenced
		require.Equal(t, want, got)
		all = append(all, Slotted{uint32(slot), want})
	}
	_, ok := v.Segment(uint32(len(m.segments)))
	require.False(t, ok)
	list, next := v.Segments(0, 1000)
	require.Zero(t, next)
	require.Equal(t, all, list)
}
