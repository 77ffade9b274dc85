package engine

import (
	"sync"

	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

const hubShards = 64

// Hub wakes the followers of streams that changed. A topic exists only while
// somebody waits for its stream.
type Hub struct {
	shards [hubShards]hubShard
}

type hubShard struct {
	mu     sync.Mutex
	topics map[stream.ID]*topic
	_      [40]byte // keeps neighbours off one cache line
}

// topic is one generation of waiters: woken together, then forgotten.
type topic struct {
	woken   chan struct{}
	waiters int
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
			close(t.woken)
			delete(s.topics, id)
		}
		s.mu.Unlock()
	}
}

// join registers a waiter: the channel is closed at the stream's next change.
// leave must be called once, woken or not.
func (h *Hub) join(id stream.ID) (woken <-chan struct{}, leave func()) {
	s := h.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.topics[id]
	if !ok {
		t = &topic{woken: make(chan struct{})}
		s.topics[id] = t
	}
	t.waiters++
	return t.woken, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.waiters--; t.waiters == 0 && s.topics[id] == t {
			delete(s.topics, id)
		}
	}
}

// size is the number of waiters that are not woken yet.
func (h *Hub) size() int {
	n := 0
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		for _, t := range s.topics {
			n += t.waiters
		}
		s.mu.Unlock()
	}
	return n
}
