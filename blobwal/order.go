package blobwal

// order decides when a segment may be delivered: when its upload has ended, one
// way or the other, and every earlier segment that shares a stream with it has
// been delivered. It is not safe for concurrent use.
type order struct {
	// last is, for each stream, the newest segment with it that is not delivered.
	last map[orderKey]*segment
	// ready are segments that may be delivered, in the order they became so.
	ready []*segment
	// undelivered counts the segments between sealed and delivered.
	undelivered int
}

// segment is one group of appends on its way.
type segment struct {
	sealed  *Sealed
	seal    Seal
	streams []orderKey
	charged int // of the backlog

	uploaded bool
	waits    int        // earlier segments that must be delivered first
	waiters  []*segment // later segments that wait for this one
}

func newOrder() *order { return &order{last: make(map[orderKey]*segment)} }

// enter takes a segment in; call it in the order of the sequences.
func (o *order) enter(s *segment) {
	o.undelivered++
	for _, key := range s.streams {
		if before := o.last[key]; before != nil && before != s && !before.hasLastWaiter(s) {
			before.waiters = append(before.waiters, s)
			s.waits++
		}
		o.last[key] = s
	}
}

// hasLastWaiter tells whether s already waits: while s enters, it can only be
// the newest waiter.
func (b *segment) hasLastWaiter(s *segment) bool {
	return len(b.waiters) > 0 && b.waiters[len(b.waiters)-1] == s
}

// ended says that the upload of a segment is over.
func (o *order) ended(s *segment) {
	s.uploaded = true
	o.offer(s)
}

// next takes the next segment to deliver, nil if none may be. Call delivered
// before the one after is needed.
func (o *order) next() *segment {
	if len(o.ready) == 0 {
		return nil
	}
	s := o.ready[0]
	o.ready[0] = nil
	o.ready = o.ready[1:]
	return s
}

// delivered lets those go that waited for s.
func (o *order) delivered(s *segment) {
	o.undelivered--
	for _, key := range s.streams {
		if o.last[key] == s {
			delete(o.last, key)
		}
	}
	for _, waiter := range s.waiters {
		waiter.waits--
		o.offer(waiter)
	}
	s.waiters = nil
}

func (o *order) offer(s *segment) {
	if s.uploaded && s.waits == 0 {
		o.ready = append(o.ready, s)
	}
}
