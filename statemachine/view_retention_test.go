package statemachine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// TestOverdueAgainstRecords appends and packs at growing times, and holds what
// is found to be overdue against the time and the bytes of each record.
func TestOverdueAgainstRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, times := drawAged(t)
		defaults := stream.Retention{
			Age:   rapid.Uint64Range(0, 3).Draw(t, "age"),
			Bytes: rapid.Uint64Range(0, 200).Draw(t, "bytes"),
		}
		now := s.logTime + stream.Time(rapid.IntRange(0, 2000).Draw(t, "later"))
		found := map[stream.ID]Overdue{}
		for _, o := range allOverdue(s, NewRetentionScan(defaults), rapid.IntRange(1, 3).Draw(t, "scan"), now) {
			require.NotContains(t, found, o.ID)
			found[o.ID] = o
		}
		for id, times := range times {
			want, ok := naiveOverdue(s, id, times, defaults, now)
			got, is := found[id]
			require.Equal(t, ok, is, "stream %d: %+v\n%s", id, want, s.dump())
			if ok {
				require.Equal(t, want, got, "stream %d at %d\n%s", id, now, s.dump())
			}
		}
	})
}

// allOverdue is what a pass finds.
func allOverdue(s *State, scan *RetentionScan, maxScan int, now stream.Time) (all []Overdue) {
	for more := true; more; {
		var list []Overdue
		list, more = scan.Step(s.View(), maxScan, now)
		all = append(all, list...)
	}
	return all
}

// TestRetentionScanRemembers goes on with a scan while streams change and time
// passes: what it passes over it would not have found.
func TestRetentionScanRemembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, l := populate(t, 2*pageRows+7)
		defaults := stream.Retention{Age: rapid.Uint64Range(0, 3).Draw(t, "age"), Bytes: rapid.Uint64Range(0, 300).Draw(t, "bytes")}
		scan := NewRetentionScan(defaults)
		now := s.logTime
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			id := stream.ID(rapid.IntRange(1, 2*pageRows+7).Draw(t, "id"))
			switch rapid.SampledFrom([]string{"wait", "append", "trim", "delete", "create", "pack"}).Draw(t, "do") {
			case "wait":
				now += stream.Time(rapid.IntRange(0, 2000).Draw(t, "later"))
			case "append":
				s.Apply(l.commit([]commands.Append{{ID: id, Records: 1, Bytes: 150}}))
			case "trim":
				s.Apply(l.entry(&commands.Trim{ID: id, To: 1}))
			case "delete":
				s.Apply(l.entry(&commands.Delete{ID: id}))
			case "create":
				config := stream.Config{Retention: stream.Retention{Age: 1}}
				s.Apply(l.commit([]commands.Append{{Create: &commands.Create{Name: stream.Name(fmt.Sprint("new/", l.index)), Config: config}, Records: 1, Bytes: 150}}))
			case "pack":
				if extents := s.View().Extents(id, 0, 1); len(extents) > 0 {
					run := commands.Run{ID: id, First: extents[0].First, Bytes: 150, Pieces: []commands.Piece{piece(extents[0].Extent)}}
					slot := accepted(t, s, l.entry(l.pack(0, s.logTime)))[0].Segment
					accepted(t, s, l.entry(commands.NewSwap(slot, l.sequence, []commands.Run{run})))
				}
			}
			now = max(now, s.logTime)
			require.Equal(t, allOverdue(s, NewRetentionScan(defaults), 1<<20, now), allOverdue(s, scan, 1, now))
		}
	})
}

// drawAged is a few streams, and when each of their records was written.
func drawAged(t *rapid.T) (*State, map[stream.ID][]stream.Time) {
	s, l := New(), &log{}
	s.Apply(l.register())
	times := map[stream.ID][]stream.Time{}
	for id := stream.ID(1); id <= 3; id++ {
		config := stream.Config{Retention: stream.Retention{Age: uint64(id % 2), Bytes: rapid.Uint64Range(0, 90).Draw(t, "keeps")}}
		accepted(t, s, l.entry(&commands.Create{Name: benchName(int(id)), Config: config}))
	}
	for range rapid.IntRange(1, 12).Draw(t, "entries") {
		l.index += commands.Index(rapid.IntRange(0, 60).Draw(t, "pause")) // a hundredth of a second each
		s.index = l.index
		id := stream.ID(rapid.IntRange(1, 3).Draw(t, "id"))
		if rapid.Bool().Draw(t, "pack?") {
			packSome(t, s, l, times)
			continue
		}
		records := rapid.Uint32Range(1, 3).Draw(t, "records")
		accepted(t, s, l.commit([]commands.Append{{ID: id, Records: records, Bytes: uint64(10 * records)}}))
		for range records {
			times[id] = append(times[id], s.logTime)
		}
	}
	return s, times
}

// packSome moves consecutive extents of each stream into one packed segment.
func packSome(t *rapid.T, s *State, l *log, times map[stream.ID][]stream.Time) {
	var runs []commands.Run
	oldest, newest := s.logTime, stream.Time(0)
	ordinal := uint32(0)
	for id := stream.ID(1); id <= 3; id++ {
		extents := s.View().Extents(id, 0, 100)
		if len(extents) == 0 {
			continue
		}
		from := rapid.IntRange(0, len(extents)-1).Draw(t, "from")
		run := commands.Run{ID: id, First: extents[from].First, Ordinal: ordinal}
		for _, e := range extents[from:rapid.IntRange(from+1, len(extents)).Draw(t, "to")] {
			run.Pieces = append(run.Pieces, piece(e.Extent))
			run.Bytes += e.Bytes
			for at := e.First; at < e.End(); at++ {
				oldest, newest = min(oldest, times[id][at]), max(newest, times[id][at])
			}
		}
		ordinal += uint32(run.Records())
		runs = append(runs, run)
	}
	if len(runs) == 0 {
		return
	}
	slot := accepted(t, s, l.entry(l.pack(oldest, newest)))[0].Segment
	accepted(t, s, l.entry(commands.NewSwap(slot, l.sequence, runs)))
}

// naiveOverdue tries every extent of a stream as the first that stays.
func naiveOverdue(s *State, id stream.ID, times []stream.Time, defaults stream.Retention, now stream.Time) (o Overdue, ok bool) {
	st, _ := s.View().Stream(id)
	extents := s.View().Extents(id, 0, 100)
	keep := st.Config.Retention.Or(defaults)
	oldest := now - 1000*stream.Time(keep.Age)
	o = Overdue{ID: id, Keep: keep, To: st.Start}
	after := func(at int) (bytes uint64) { // bytes of the extents from one on
		for _, e := range extents[at:] {
			bytes += uint64(e.Bytes)
		}
		return bytes
	}
	for at := 1; at <= len(extents); at++ {
		before := extents[at-1]
		aged := keep.Age > 0 && before.In.Newest < oldest
		tooMany := keep.Bytes > 0 && after(at) >= keep.Bytes
		if aged || tooMany {
			o.To = before.End()
		}
		for offset := before.First; aged && offset < before.End(); offset++ {
			if times[offset] >= oldest {
				panic("a record is newer than its segment")
			}
		}
	}
	for at, e := range extents {
		if e.First != o.To {
			continue
		}
		o.Aged = keep.Age > 0 && e.In.Oldest < oldest
		if bytes := after(at); keep.Bytes > 0 && bytes > keep.Bytes {
			o.Excess = bytes - keep.Bytes
		}
	}
	return o, o.To > st.Start || o.Aged || o.Excess > 0
}

// TestOverdueOfOne names what is found of one stream, bound by bound.
func TestOverdueOfOne(t *testing.T) {
	s, l := swapped(t) // at 20, 30, 40 and 50 ms: two records of 10 bytes each time
	overdue := func(keep stream.Retention, now stream.Time) Overdue {
		list := allOverdue(s, NewRetentionScan(keep), 100, now)
		if len(list) == 0 {
			return Overdue{}
		}
		return list[0]
	}
	age := stream.Retention{Age: 1}
	assert.Equal(t, Overdue{}, overdue(stream.Retention{}, 1<<40), "nothing is asked for")
	assert.Equal(t, Overdue{}, overdue(age, 1020))
	assert.Equal(t, Overdue{ID: 1, Keep: age, To: 2}, overdue(age, 1021))
	assert.Equal(t, Overdue{ID: 1, Keep: age, To: 8}, overdue(age, 1<<40))

	bytes := func(n uint64) stream.Retention { return stream.Retention{Bytes: n} }
	assert.Equal(t, Overdue{}, overdue(bytes(40), 0))
	assert.Equal(t, Overdue{ID: 1, Keep: bytes(39), Excess: 1}, overdue(bytes(39), 0))
	assert.Equal(t, Overdue{ID: 1, Keep: bytes(30), To: 2}, overdue(bytes(30), 0))
	assert.Equal(t, Overdue{ID: 1, Keep: bytes(1), To: 6, Excess: 9}, overdue(bytes(1), 0))

	// In one packed segment the times are mixed.
	accepted(t, s, l.entry(l.pack(20, 40)))
	accepted(t, s, l.entry(commands.NewSwap(5, l.sequence, []commands.Run{{
		ID: 1, Bytes: 30, Pieces: []commands.Piece{{Slot: 0, Count: 2}, {Slot: 1, Count: 2}, {Slot: 2, Count: 2}},
	}})))
	assert.Equal(t, Overdue{ID: 1, Keep: age, Aged: true}, overdue(age, 1021))
	assert.Equal(t, Overdue{ID: 1, Keep: age, To: 6}, overdue(age, 1041))
	both := stream.Retention{Age: 1, Bytes: 15}
	assert.Equal(t, Overdue{ID: 1, Keep: both, Aged: true, Excess: 25}, overdue(both, 1021))
	both.Bytes = 10
	assert.Equal(t, Overdue{ID: 1, Keep: both, To: 6}, overdue(both, 1021), "the bytes take what may be too old")
}

// TestScansPassOverAbsentPages scans streams and segments of which whole pages
// are gone, in steps.
func TestScansPassOverAbsentPages(t *testing.T) {
	s, l := populate(t, 5*pageRows)
	for i := range stream.ID(4 * pageRows) {
		commitEach(t, s, l, commands.Append{ID: 1 + i, Records: 1, Bytes: 50})
	}
	var gone []uint32
	slots := uint32(s.counts.Slots)
	for id := stream.ID(pageRows); id < 3*pageRows; id++ {
		accepted(t, s, l.entry(&commands.Delete{ID: id}))
		gone = append(gone, slots-4*pageRows-1+uint32(id))
	}
	accepted(t, s, l.entry(&commands.Doom{Slots: gone}, &commands.Collected{Slots: gone}))
	require.Nil(t, s.streams.at(2))
	require.Nil(t, s.segments.at(2))
	v := s.View()

	count, steps := 0, 0
	scan := NewRetentionScan(stream.Retention{Bytes: 50})
	for more := true; more; steps++ {
		var list []Overdue
		list, more = scan.Step(v, 100, 0)
		count += len(list)
	}
	assert.Equal(t, 3*pageRows, count)
	assert.Greater(t, steps, 2)

	var slotted []Slotted
	steps = 0
	for from := uint32(0); steps == 0 || from != 0; steps++ {
		var list []Slotted
		list, from = v.Segments(from, 10)
		assert.LessOrEqual(t, len(list), 10+pageRows)
		slotted = append(slotted, list...)
	}
	assert.Len(t, slotted, int(s.counts.Segments))
	assert.Greater(t, steps, 2)
	for i, g := range slotted {
		assert.True(t, i == 0 || g.Slot > slotted[i-1].Slot)
	}
	some, _ := v.Segments(slotted[10].Slot, 1)
	assert.Equal(t, slotted[10], some[0], "from the middle of a page")
	none, next := v.Segments(slotted[len(slotted)-1].Slot+1, 10)
	assert.Empty(t, none)
	assert.Zero(t, next)
}

// TestHolders finds the extents in some segments, in steps, and one by one.
func TestHolders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := drawAged(t)
		chosen := map[uint32]bool{}
		for slot := range uint32(s.counts.Slots) {
			chosen[slot] = rapid.Bool().Draw(t, "in")
		}
		in := func(slot uint32) bool { return chosen[slot] }
		last := stream.ID(rapid.IntRange(0, 5).Draw(t, "last"))
		var want, got, each []Held
		for id := stream.ID(1); id <= min(last, 3); id++ {
			own := Held{ID: id}
			for _, e := range s.View().Extents(id, 0, 100) {
				if in(e.Segment) {
					own.Extents = append(own.Extents, e.Extent)
				} else if len(own.Extents) > 0 {
					want, own.Extents = append(want, own), nil
				}
			}
			if len(own.Extents) > 0 {
				want = append(want, own)
			}
			held, _ := s.View().heldBy(id, in)
			each = append(each, held...)
		}
		for cursor, first := stream.ID(0), true; first || cursor != 0; first = false {
			var list []Held
			list, cursor = s.View().Holders(cursor, last, in, rapid.IntRange(1, 3).Draw(t, "max"))
			got = append(got, list...)
		}
		require.Equal(t, want, got)
		require.Equal(t, want, each)
		none, _ := s.View().heldBy(1<<20, in)
		require.Empty(t, none)
	})
}
