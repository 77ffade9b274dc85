package statemachine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

func TestOutOfOrder(t *testing.T) {
	s, l := populate(t, 1)
	before := s.dump()
	for _, index := range []commands.Index{0, 1, s.Index(), s.Index() + 2} {
		e := l.entry(&commands.Delete{ID: 1})
		e.Index = index
		out := s.Apply(e)
		assert.True(t, out.OutOfOrder)
		assert.Empty(t, out.Proposals)
	}
	assert.Equal(t, before, s.dump())
}

// TestScalars follows what there is one of.
func TestScalars(t *testing.T) {
	s := New()
	v := s.View()
	_, known := v.Cluster()
	assert.False(t, known)
	assert.Equal(t, firstLevel, v.Level())
	assert.Empty(t, v.Release())
	l := &log{}
	m := &commands.RegisterNode{Cluster: commands.ClusterID{7}, Incarnation: benchIncarnation, Level: 3, Address: "host:1", Release: "v3"}
	s.Apply(l.entry(m))
	s.Apply(l.entry(&commands.Activate{Level: 2, Release: "v2"}))
	s.Apply(l.entry(&commands.Tick{}))
	cluster, known := v.Cluster()
	assert.True(t, known)
	assert.Equal(t, m.Cluster, cluster)
	assert.Equal(t, uint32(2), v.Level())
	assert.Equal(t, "v2", v.Release())
	assert.Equal(t, commands.Index(3), v.Index())
	assert.Equal(t, stream.Time(30), v.LogTime())
	assert.Equal(t, int64(20), v.ActiveTime())
	assert.Equal(t, []Node{{
		Node: 1, Epoch: 1, Incarnation: benchIncarnation, Address: "host:1", Level: 3, Release: "v3", LastSeq: 2,
	}}, v.Nodes())
	restored := restore(t, encode(t, s.BeginSnapshot())).View()
	assert.Equal(t, v.Nodes(), restored.Nodes())
	assert.Equal(t, v.Release(), restored.Release())
	assert.Equal(t, v.ActiveTime(), restored.ActiveTime())
}

func TestList(t *testing.T) {
	s, l := New(), &log{}
	s.Apply(l.register())
	for _, name := range []stream.Name{"b", "a/2", "a/1", "a", "a-b", "c", "a/10", "\xff"} {
		s.Apply(l.entry(&commands.Create{Name: name}))
	}
	tests := []struct {
		prefix string
		after  stream.Name
		limit  int
		want   []stream.Name
		more   bool
	}{
		{"", "", 100, []stream.Name{"a", "a-b", "a/1", "a/10", "a/2", "b", "c", "\xff"}, false},
		{"", "", 2, []stream.Name{"a", "a-b"}, true},
		{"", "a-b", 2, []stream.Name{"a/1", "a/10"}, true},
		{"", "b", 3, []stream.Name{"c", "\xff"}, false},
		{"", "\xff", 3, nil, false},
		{"a/", "", 3, []stream.Name{"a/1", "a/10", "a/2"}, false},
		{"a/", "", 2, []stream.Name{"a/1", "a/10"}, true},
		{"a/", "a/1", 1, []stream.Name{"a/10"}, true},
		{"a/", "a", 1, []stream.Name{"a/1"}, true},
		{"a/", "b", 9, nil, false},
		{"a/1", "", 9, []stream.Name{"a/1", "a/10"}, false},
		{"z", "", 9, nil, false},
		{"", "", 0, nil, false},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s after %s", test.prefix, test.after), func(t *testing.T) {
			page, more := s.View().List(test.prefix, test.after, test.limit)
			var names []stream.Name
			for _, st := range page {
				names = append(names, st.Name)
			}
			assert.Equal(t, test.want, names)
			assert.Equal(t, test.more, more)
		})
	}
}

func TestExtents(t *testing.T) {
	s, l := New(), &log{}
	s.Apply(l.register())
	s.Apply(l.entry(&commands.Create{Name: "s"}))
	for range 4 { // at times 30, 40, 50, 60
		s.Apply(l.commit([]commands.Append{{ID: 1, Records: 2, Bytes: 20}}))
	}
	s.Apply(l.entry(&commands.Trim{ID: 1, To: 1}))
	v := s.View()
	firsts := func(from stream.Offset, limit int) (firsts []stream.Offset) {
		for _, e := range v.Extents(1, from, limit) {
			firsts = append(firsts, e.First)
		}
		return firsts
	}
	assert.Equal(t, []stream.Offset{1, 2, 4, 6}, firsts(0, 9))
	assert.Equal(t, []stream.Offset{2, 4}, firsts(2, 2))
	assert.Equal(t, []stream.Offset{2, 4, 6}, firsts(3, 9))
	assert.Empty(t, firsts(8, 9))
	assert.Empty(t, v.Extents(2, 0, 9))
	assert.Empty(t, v.Extents(stream.MakeID(1, 1), 0, 9))
	for i, x := range v.Extents(1, 0, 9) {
		want, _ := v.Segment(x.Segment)
		assert.Equal(t, want, x.In)
		assert.Equal(t, stream.Time(30+10*i), x.In.Time)
	}
}

// TestDueInSteps scans in small steps over several pages, of which one has
// nothing that can expire and one is gone.
func TestDueInSteps(t *testing.T) {
	s, l := New(), &log{}
	s.Apply(l.register())
	var want []stream.ID
	for i := range stream.ID(4 * pageRows) {
		m := &commands.Create{Name: benchName(int(i))}
		if page := i / pageRows; page != 1 && i%100 == 0 {
			m.Config.Expiry = stream.Expiry{Kind: stream.ExpiresIdle}
			if page != 2 {
				want = append(want, i+1)
			}
		}
		s.Apply(l.entry(m))
	}
	assert.True(t, s.View().HasExpiring())
	for dense := stream.ID(2 * pageRows); dense < 3*pageRows; dense++ {
		s.Apply(l.entry(&commands.Delete{ID: dense}, &commands.Expire{IDs: []stream.ID{dense}}))
	}
	require.Nil(t, s.streams.at(2))
	var found []stream.ID
	steps := 0
	for cursor := stream.ID(0); steps == 0 || cursor != 0; steps++ {
		var ids []stream.ID
		ids, cursor = s.View().Due(cursor, 10)
		found = append(found, ids...)
	}
	assert.Equal(t, want, found)
	assert.Greater(t, steps, 2)
	s.Apply(l.entry(&commands.Expire{IDs: want}))
	found, _ = s.View().Due(0, 1<<20)
	assert.Empty(t, found)
	assert.False(t, s.View().HasExpiring())
}

// TestReadersSeeWholeAppends reads while entries are applied and a snapshot is
// encoded: every stream a reader sees has extents from start to tail, and no
// index is seen before its rows.
func TestReadersSeeWholeAppends(t *testing.T) {
	const streams, rounds = 300, 100
	s, l := populate(t, streams)
	base := s.Index()
	var done atomic.Bool
	var readers sync.WaitGroup
	for reader := range 2 {
		readers.Go(func() {
			for i := reader; !done.Load(); i++ {
				checkReader(t, s.View(), base, stream.ID(1+i%streams))
			}
		})
	}
	for round := range rounds {
		appends := make([]commands.Append, streams)
		for i := range appends {
			appends[i] = commands.Append{ID: stream.ID(1 + i), Records: 1, Bytes: 3, HasProducer: true, Producer: stream.Producer{
				ID: fmt.Sprintf("producer-%d", round%20), Seq: uint64(round / 20),
			}}
		}
		s.Apply(l.commit(appends))
		if round%50 == 10 {
			p := s.BeginSnapshot()
			readers.Go(func() {
				assert.NoError(t, p.Encode(writerFunc(func(b []byte) (int, error) { return len(b), nil })))
			})
		}
		s.Apply(l.entry(
			&commands.Trim{ID: stream.ID(1 + round%streams), To: stream.Offset(round)},
			&commands.Delete{ID: stream.ID(streams - round%100)},
			&commands.Create{Name: stream.Name(fmt.Sprint("new-", round)), Config: stream.Config{ContentType: fmt.Sprint("type/", round%7)}},
			&commands.Delete{ID: stream.ID(streams + round/2)},
		))
	}
	done.Store(true)
	readers.Wait()
	assert.Equal(t, s.items, s.recompute())
}

func checkReader(t *testing.T, v View, base commands.Index, id stream.ID) {
	commits := stream.Offset(v.Index()-base) / 2
	st, ok := v.Stream(id)
	if ok && st.Tail < 1+commits {
		t.Errorf("stream %d has tail %d at index %d", id, st.Tail, v.Index())
	}
	next := st.Start
	for i, e := range v.Extents(id, st.Start, 1<<20) {
		if i == 0 && e.First < st.Start || i > 0 && e.First != next {
			t.Errorf("stream %d: extent %d begins at %d, not at %d", id, i, e.First, next)
		}
		next = e.End()
		if e.In.Node != 1 {
			t.Errorf("stream %d: no segment %d", id, e.Segment)
		}
	}
	if page, _ := v.List("new-", "", 3); len(page) > 0 && page[0].Config.ContentType == "" {
		t.Errorf("stream %d has lost its content type", page[0].ID)
	}
	v.Lookup(st.Name)
	v.Due(0, 100)
	v.Nodes()
	v.Counts()
	v.Cluster()
}
