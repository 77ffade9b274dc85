package statemachine

import (
	"math"

	"github.com/picomq/picomq/stream"
)

// maxKnown is how many of a producer's last requests are remembered with their
// first offset.
const maxKnown = 5

// indexedFrom is the number of producers from which a stream finds them through
// a map instead of by walking.
const indexedFrom = 16

// producer is what a stream knows of one idempotent producer: 48 bytes without
// a pointer. Sequences of one epoch are accepted one by one from 0, so the last
// known requests are seq, seq-1, …, and only their offsets need room.
type producer struct {
	epoch uint64
	seq   uint64 // highest accepted
	first stream.Offset
	// back[i] is how far the first offset of request seq-1-i lies below that of
	// seq-i; those past known-1 are zero.
	back  [maxKnown - 1]uint32
	id    uint32 // in State.producers
	known uint8  // requests whose first offset is known: 1 to maxKnown
}

// accept makes a request the producer's last one.
func (p *producer) accept(epoch, seq uint64, first stream.Offset) {
	distance := uint64(first - p.first)
	if p.known == 0 || epoch != p.epoch || distance > math.MaxUint32 {
		*p = producer{epoch: epoch, seq: seq, first: first, id: p.id, known: 1}
		return
	}
	copy(p.back[1:], p.back[:])
	p.back[0] = uint32(distance)
	p.seq, p.first = seq, first
	p.known = min(p.known+1, maxKnown)
}

// firstOf is the first offset of an accepted request, seq ≤ p.seq, while it is
// known.
func (p *producer) firstOf(seq uint64) (stream.Offset, bool) {
	age := p.seq - seq
	if age >= uint64(p.known) {
		return 0, false
	}
	first := p.first
	for _, distance := range p.back[:age] {
		first -= stream.Offset(distance)
	}
	return first, true
}

// find is the place in producers of an interned id.
func (d *side) find(id uint32) (int, bool) {
	if d == nil {
		return 0, false
	}
	if d.byID != nil {
		at, ok := d.byID[id]
		return int(at), ok
	}
	for i := range d.producers {
		if d.producers[i].id == id {
			return i, true
		}
	}
	return 0, false
}

// add appends a producer that is not among those of the stream.
func (d *side) add(p producer) int {
	at := len(d.producers)
	d.producers = append(grow(d.producers), p)
	switch {
	case d.byID != nil:
		d.byID[p.id] = uint32(at)
	case len(d.producers) == indexedFrom:
		d.byID = make(map[uint32]uint32, 2*indexedFrom)
		for i := range d.producers {
			d.byID[d.producers[i].id] = uint32(i)
		}
	}
	return at
}

// known is what a stream knows of a producer, or nil.
func (s *State) known(d *side, id string) *producer {
	if d == nil {
		return nil
	}
	number, ok := s.producers.find(id)
	if !ok {
		return nil
	}
	if at, ok := d.find(number); ok {
		return &d.producers[at]
	}
	return nil
}

// acceptProducer records an accepted request and returns the producer's place.
// The row is locked.
func (s *State) acceptProducer(id stream.ID, d *side, request *stream.Producer, first stream.Offset) int {
	at, found := 0, false
	if number, ok := s.producers.find(request.ID); ok {
		at, found = d.find(number)
	}
	if found {
		s.items -= s.hashProducer(id, &d.producers[at])
	} else {
		at = d.add(producer{id: s.producers.acquire(request.ID)})
		s.counts.Producers++
	}
	p := &d.producers[at]
	p.accept(request.Epoch, request.Seq, first)
	s.items += s.hashProducer(id, p)
	return at
}
