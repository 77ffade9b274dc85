package engine

import (
	"sync"
	"time"

	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

const hubShards = 64

// cohortSize bounds the followers that are woken at once.
const cohortSize = 64

// Hub wakes the followers of streams that changed, and looks after the expiry of
// those that are followed. A topic exists only while somebody waits for its
// stream.
//
// A change that ten thousand wait for would fill the scheduler's queues, and
// everything else that becomes runnable (appends, their commit, their answers)
// would wait behind all of them. So followers are woken a cohort at a time: the
// first of a cohort to run wakes the next one, before it does anything that takes
// time. About two cohorts are in the queues then, and other work between them.
type Hub struct {
	shards [hubShards]hubShard
	// tend is called about a followed stream when it is time (see [Hub.keep]), on a
	// goroutine of its own, and tells when it is next; 0: never. An engine sets it.
	tend func(stream.ID) time.Duration
}

type hubShard struct {
	mu     sync.Mutex
	topics map[stream.ID]*topic
	_      [40]byte // keeps neighbours off one cache line
}

// topic is one generation of waiters, in cohorts of which none is empty: woken
// one after the other, then forgotten.
type topic struct {
	first, last *cohort
	timer       *time.Timer // tends the stream for all of them; nil: nobody asked
}

// cohort is waiters that are woken together. The shard's lock guards it, but for
// the channel.
type cohort struct {
	topic      *topic
	prev, next *cohort
	waiters    int
	woken      chan struct{} // closed at the stream's next change
	isWoken    bool
	passed     bool // the next one was woken
}

// NewHub makes an empty hub.
func NewHub() *Hub {
	h := &Hub{}
	for i := range h.shards {
		h.shards[i].topics = make(map[stream.ID]*topic)
	}
	return h
}

func (h *Hub) shard(id stream.ID) *hubShard { return &h.shards[uint64(id)%hubShards] }

// Publish wakes the followers of every stream that an entry changed. It is
// what a replica's Published calls.
func (h *Hub) Publish(o *statemachine.Outcome) {
	for _, id := range o.Changed {
		s := h.shard(id)
		s.mu.Lock()
		if t, ok := s.topics[id]; ok {
			t.first.wake()
			s.forget(id, t)
		}
		s.mu.Unlock()
	}
}

// join registers a waiter with a cohort, whose channel is closed at the stream's
// next change. leave must be called once, woken or not, and soon: others wait for
// it.
func (h *Hub) join(id stream.ID) *cohort {
	s := h.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.topics[id]
	if !ok {
		t = new(topic)
		s.topics[id] = t
	}
	if t.last == nil || t.last.waiters == cohortSize {
		t.add(&cohort{topic: t, woken: make(chan struct{})})
	}
	t.last.waiters++
	return t.last
}

// leave takes a waiter out of its cohort. The first to leave one that was woken
// wakes the next.
func (h *Hub) leave(id stream.ID, c *cohort) {
	s := h.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.waiters--
	switch {
	case c.isWoken && !c.passed:
		c.passed = true
		if c.next != nil {
			c.next.wake()
		}
	case !c.isWoken && c.waiters == 0:
		c.topic.remove(c)
		if c.topic.first == nil { // so it is not published: its first would be woken
			s.forget(id, c.topic)
		}
	}
}

// keep has the stream of a waiter tended for the first time after a while, unless
// somebody asked for that already. It ends with the topic.
func (h *Hub) keep(id stream.ID, c *cohort, after time.Duration) {
	s := h.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := c.topic
	if s.topics[id] == t && t.timer == nil {
		t.timer = time.AfterFunc(after, func() { h.tendTopic(id, t) })
	}
}

func (h *Hub) tendTopic(id stream.ID, t *topic) {
	next := h.tend(id)
	s := h.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics[id] == t && next > 0 {
		t.timer.Reset(next)
	}
}

func (s *hubShard) forget(id stream.ID, t *topic) {
	delete(s.topics, id)
	if t.timer != nil {
		t.timer.Stop()
	}
}

func (c *cohort) wake() {
	c.isWoken = true
	close(c.woken)
}

func (t *topic) add(c *cohort) {
	c.prev = t.last
	if t.last == nil {
		t.first = c
	} else {
		t.last.next = c
	}
	t.last = c
}

func (t *topic) remove(c *cohort) {
	if c.prev == nil {
		t.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		t.last = c.prev
	} else {
		c.next.prev = c.prev
	}
}

// size is the number of waiters whose stream has not changed yet.
func (h *Hub) size() int {
	n := 0
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		for _, t := range s.topics {
			for c := t.first; c != nil; c = c.next {
				n += c.waiters
			}
		}
		s.mu.Unlock()
	}
	return n
}
