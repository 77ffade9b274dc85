package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/stream"
)

const (
	most     = 8 << 20
	ofStream = 100 << 10
)

// swept is sweeps that read streams of one size ahead as they are told.
type swept struct {
	sweeps
	now   time.Time
	ahead map[stream.ID]bool
	bytes int // that were read ahead at a time, at most
}

func newSwept() *swept { return &swept{now: time.Unix(1, 0), ahead: map[stream.ID]bool{}} }

// read is a stream that is read whole.
func (s *swept) read(id stream.ID) {
	delete(s.ahead, id)
	x, from, bytes := s.come(id, s.now, most)
	if bytes <= 0 {
		return
	}
	to := from
	for found := 0; found < bytes; found += ofStream {
		s.ahead[to] = true
		to++
	}
	s.went(x, from, to, int(to-from)*ofStream)
	s.bytes = max(s.bytes, len(s.ahead)*ofStream)
}

func TestWhoeverGoesThroughStreamsHasWhatComesNextReadAhead(t *testing.T) {
	for name, order := range map[string]func(i stream.ID) stream.ID{
		"in order":              func(i stream.ID) stream.ID { return i },
		"several, side by side": func(i stream.ID) stream.ID { return i ^ 3 },
		"created side by side":  func(i stream.ID) stream.ID { return i ^ 63 },
	} {
		s := newSwept()
		unprepared := 0
		for i := range stream.ID(1 << 10) {
			id := order(i) + 1000
			if !s.ahead[id] {
				unprepared++
			}
			s.read(id)
		}
		assert.LessOrEqual(t, unprepared, 80, name)
		assert.Greater(t, s.bytes, most/2, name)
		// What others skipped waits for them besides, and what was read before it began.
		assert.LessOrEqual(t, s.bytes, most+ofStream*(2+64+2*fewStreams), name)
	}
}

func TestNothingIsReadAheadForOthers(t *testing.T) {
	for name, order := range map[string]func(i stream.ID) stream.ID{
		"one again and again": func(stream.ID) stream.ID { return 7 },
		"here and there":      func(i stream.ID) stream.ID { return i * 7919 % 10007 * sweepNear },
		"few":                 func(i stream.ID) stream.ID { return i % (fewStreams - 1) / 2 * sweepNear * 2 },
	} {
		s := newSwept()
		for i := range stream.ID(1000) {
			s.read(order(i) + 1)
		}
		assert.Zero(t, s.bytes, name)
	}
}

func TestASweepThatStoodStillBeginsAnew(t *testing.T) {
	s := newSwept()
	for id := range stream.ID(40) {
		s.read(id + 1)
		s.now = s.now.Add(sweepStands)
	}
	assert.Zero(t, s.bytes)
}

// TestStreamsForWhichThereWasNoRoomAreTriedAgain, from the same one on.
func TestStreamsForWhichThereWasNoRoomAreTriedAgain(t *testing.T) {
	var s sweeps
	now, tries := time.Unix(1, 0), 0
	for id := stream.ID(1); id <= 30; id++ {
		x, from, bytes := s.come(id, now, most)
		if bytes <= 0 {
			continue
		}
		_, _, again := s.come(id, now, most)
		assert.Zero(t, again, "one at a time")
		assert.LessOrEqual(t, from, id)
		s.went(x, from, from, 0)
		tries++
	}
	assert.Greater(t, tries, 10)
}

// Where there is no room for long, the readers overtake what is ahead of them.
func TestWhatReadersOvertookIsNotReadAhead(t *testing.T) {
	s := newSwept()
	id := stream.ID(1)
	for ; id < 50; id++ {
		s.read(id)
	}
	tries := 0
	for ; id < 5000; id++ {
		x, from, bytes := s.come(id, s.now, most)
		if bytes <= 0 {
			continue
		}
		tries++
		assert.GreaterOrEqual(t, from+sweepNear, id)
		assert.LessOrEqual(t, bytes, most)
		s.went(x, from, from, 0)
	}
	assert.Greater(t, tries, 100)
}

func TestSpansSideBySideAreJoined(t *testing.T) {
	segment := func(sequence uint64) blockcache.Segment {
		return blockcache.Segment{ID: blobwal.SegmentID{Node: 1, Epoch: 1, Sequence: sequence}}
	}
	one, two := segment(1), segment(2)
	joined := joinSpans([]span{
		{two, 0, 10, 1000},
		{one, 20, 30, 1000},
		{one, 0, 10, 1000}, // touches the next
		{one, 10, 20, 1000},
		{one, 600, 610, 1000},   // 57 kB further on
		{one, 2000, 2010, 1000}, // too far
		{two, 5, 8, 300},        // within the first
		{two, 9, 11, 200},       // and beyond it
		{two, 11, 12, 9000},
	})
	for i := range joined {
		joined[i].bytes = 0
	}
	assert.Equal(t, []span{{one, 0, 610, 0}, {one, 2000, 2010, 0}, {two, 0, 12, 0}}, joined)
	assert.Empty(t, joinSpans(nil))
}
