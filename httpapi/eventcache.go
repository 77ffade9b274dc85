package httpapi

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/picomq/picomq/stream"
)

// event is an encoded data event and the place after it. It is shared and must
// not be written to.
type event struct {
	data  []byte // empty: only a control event
	place place
	tail  stream.Offset // when it was read
	more  bool          // more existed then
	stale bool          // read from an old view: others may be told more
}

// eventKey names an event. The tail and closure are those that the reader knew
// of: an event for a reader who knows of a later tail is another one.
type eventKey struct {
	id     stream.ID
	from   stream.Offset
	tail   stream.Offset
	closed bool
	format string
}

// eventCache makes every event once for all readers who want it at about the
// same time. It keeps the most recently used ones up to a number of bytes. It is
// safe for concurrent use.
type eventCache struct {
	capacity int64
	metrics  *Metrics

	mu      sync.Mutex
	bytes   int64                      // of the kept events
	kept    map[eventKey]*list.Element // Value is a keptEvent
	recent  *list.List                 // most recently used first
	flights map[eventKey]*flight       // being made now
}

type keptEvent struct {
	key   eventKey
	event *event
}

// flight is an event being made. Its result is set before done is closed.
type flight struct {
	done  chan struct{}
	event *event
	err   error
}

const (
	// eventOverhead is what an event costs beside its data, in bytes, roughly.
	eventOverhead = 256
	// makeTimeout bounds the making of an event: it goes on when the reader
	// that began it leaves, because others may wait for it.
	makeTimeout = 30 * time.Second
)

func newEventCache(capacity int64, metrics *Metrics) *eventCache {
	return &eventCache{
		capacity: capacity,
		metrics:  metrics,
		kept:     make(map[eventKey]*list.Element),
		recent:   list.New(),
		flights:  make(map[eventKey]*flight),
	}
}

// find is the event of a key if it is kept, or nil.
func (c *eventCache) find(key eventKey) *event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.findLocked(key)
}

func (c *eventCache) findLocked(key eventKey) *event {
	element, ok := c.kept[key]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(element)
	c.metrics.eventHits.Inc()
	return element.Value.(keptEvent).event
}

// get is the event of a key: kept, being made by another reader, or made here.
func (c *eventCache) get(ctx context.Context, key eventKey, encode func(context.Context) (*event, error)) (*event, error) {
	c.mu.Lock()
	if e := c.findLocked(key); e != nil {
		c.mu.Unlock()
		return e, nil
	}
	if f, ok := c.flights[key]; ok {
		c.mu.Unlock()
		c.metrics.eventHits.Inc()
		return f.wait(ctx)
	}
	f := &flight{done: make(chan struct{}), err: errMakerPanicked}
	c.flights[key] = f
	c.mu.Unlock()
	c.metrics.eventMisses.Inc()
	defer c.land(key, f)
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer cancel()
	f.event, f.err = encode(detached)
	return f.event, f.err
}

// errMakerPanicked is what those who wait get when the maker never returned.
var errMakerPanicked = errors.New("making an event for another reader panicked")

func (f *flight) wait(ctx context.Context) (*event, error) {
	select {
	case <-f.done:
		return f.event, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// land ends a flight and keeps what it made, unless it is soon outdated or so
// large that it would push out too much.
func (c *eventCache) land(key eventKey, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, key)
	close(f.done)
	if f.err != nil || f.event.stale || cost(f.event) > c.capacity/4 {
		return
	}
	c.kept[key] = c.recent.PushFront(keptEvent{key: key, event: f.event})
	c.bytes += cost(f.event)
	for c.bytes > c.capacity {
		oldest := c.recent.Remove(c.recent.Back()).(keptEvent)
		delete(c.kept, oldest.key)
		c.bytes -= cost(oldest.event)
	}
}

func cost(e *event) int64 { return int64(cap(e.data)) + eventOverhead }
