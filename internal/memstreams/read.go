package memstreams

import (
	"context"
	"sort"

	"github.com/picomq/picomq/stream"
)

// Read implements httpapi.Streams.
func (s *Streams) Read(_ context.Context, name stream.Name, q stream.ReadRequest) (*stream.Chunk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if q.ID != 0 && q.ID != r.info.ID {
		return nil, stream.Errorf(stream.CodeNotFound, "the stream %q was deleted and made anew", name)
	}
	first := r.resolve(q.From)
	if first < r.info.Start {
		return nil, &stream.Error{Code: stream.CodeTrimmed, Message: "the offset was trimmed away", Start: r.info.Start}
	}
	if first > r.info.Tail {
		return nil, &stream.Error{Code: stream.CodeBeyondTail, Message: "the offset lies beyond the tail", Tail: r.info.Tail}
	}
	r.touched = s.now
	return r.chunk(first, q.MaxBytes, q.MaxRecords), nil
}

func (r *row) resolve(p stream.Position) stream.Offset {
	switch p.Kind {
	case stream.FromStart:
		return r.info.Start
	case stream.FromTail:
		return r.info.Tail - min(stream.Offset(p.Back), r.info.Tail-r.info.Start)
	case stream.FromTime:
		n := sort.Search(len(r.records), func(i int) bool { return r.records[i].at >= p.Time })
		return r.info.Start + stream.Offset(n)
	default:
		return p.Offset
	}
}

// chunk makes one run of each timestamp, as segments have one.
func (r *row) chunk(first stream.Offset, maxBytes, maxRecords int) *stream.Chunk {
	c := &stream.Chunk{Info: r.info, First: first, Next: first}
	json := stream.IsJSON(r.info.Config.ContentType)
	size := 0
	for _, record := range r.records[first-r.first:] {
		size += record.size()
		count := int(c.Next - first)
		if count > 0 && (size > maxBytes || maxRecords > 0 && count == maxRecords) {
			break
		}
		last := len(c.Runs) - 1
		if last < 0 || c.Runs[last].Time != record.at {
			c.Runs = append(c.Runs, stream.Run{First: c.Next, Time: record.at, JSON: json})
			last++
		}
		addRecord(&c.Runs[last], record.Record)
		c.Next++
	}
	c.UpToDate = c.Next == r.info.Tail
	return c
}

// size is the bytes that caps and retention count.
func (r *timed) size() int {
	size := len(r.Body)
	for _, h := range r.Headers {
		size += len(h.Name) + len(h.Value)
	}
	return size
}

func addRecord(run *stream.Run, record stream.Record) {
	if run.JSON && run.Len() > 0 {
		run.Bodies = append(run.Bodies, ',')
	}
	run.Bodies = append(run.Bodies, record.Body...)
	run.Ends = append(run.Ends, uint32(len(run.Bodies)))
	if record.Headers != nil && run.Headers == nil {
		run.Headers = make([][]stream.Header, run.Len()-1)
	}
	if run.Headers != nil {
		run.Headers = append(run.Headers, record.Headers)
	}
}

// Waiting is the number of calls of Wait that are waiting now.
func (s *Streams) Waiting() int { return int(s.waiting.Load()) }

// Wait implements httpapi.Streams.
func (s *Streams) Wait(ctx context.Context, q stream.WaitRequest) (stream.Info, error) {
	s.attach(q.ID, 1)
	defer s.attach(q.ID, -1)
	for {
		info, changed, err := s.look(q)
		if err != nil || info.Tail > q.After || info.Closed {
			return info, err
		}
		if over, err := s.park(ctx, changed, q.Until); over || err != nil {
			return info, err
		}
	}
}

// park waits for a change, and reports whether the wait is over.
func (s *Streams) park(ctx context.Context, changed, until <-chan struct{}) (over bool, err error) {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	select {
	case <-changed:
		return false, nil
	case <-until:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// attach counts a reader of a stream in or out, if it still exists.
func (s *Streams) attach(id stream.ID, change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.byID(id); r != nil {
		r.attached += change
		r.touched = s.now
	}
}

// look is the stream that is waited for, and the channel that tells of the next
// change.
func (s *Streams) look(q stream.WaitRequest) (stream.Info, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return stream.Info{}, nil, s.failure
	}
	s.expire()
	r := s.byID(q.ID)
	switch {
	case r == nil:
		return stream.Info{}, nil, stream.Errorf(stream.CodeNotFound, "the stream is gone")
	case r.deleted:
		return stream.Info{}, nil, errDeleted(r.info.Name)
	}
	return r.info, s.changed, nil
}

// byID is a stream, also one that is due or was deleted, or nil. The caller
// holds mu.
func (s *Streams) byID(id stream.ID) *row {
	for _, r := range s.names {
		if r.info.ID == id {
			return r
		}
	}
	return nil
}
