package soak

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/picomq/picomq/stream"
)

// reading is a request to read and where it must begin.
type reading struct {
	stream.ReadRequest
	first stream.Offset
	exact bool // first is where it begins, whatever retention does
}

// position draws where to read, inside or a little outside of a stream.
func (x *worker) position(m *model) (r reading) {
	r.MaxBytes, r.exact = 1+x.random.IntN(4<<10), true
	if x.random.IntN(3) == 0 {
		r.MaxRecords = 1 + x.random.IntN(20)
	}
	switch x.random.IntN(6) {
	case 0:
		r.From.Kind, r.first, r.exact = stream.FromStart, m.start, false
	case 1:
		back := x.random.IntN(len(m.kept) + 1)
		r.From, r.first, r.exact = stream.Position{Kind: stream.FromTail, Back: uint64(back)}, m.tail()-stream.Offset(back), false
	case 2:
		if len(m.kept) > 0 {
			return x.positionAt(m, r)
		}
		fallthrough
	default:
		r.first = m.start + stream.Offset(x.random.IntN(len(m.kept)+1))
		if x.random.IntN(10) == 0 {
			r.first = stream.Offset(x.random.IntN(int(m.tail()) + 3)) // trimmed perhaps, or beyond the tail
		}
		r.From = stream.At(r.first)
	}
	return r
}

// positionAt draws the time of a record.
func (x *worker) positionAt(m *model, r reading) reading {
	t := m.kept[x.random.IntN(len(m.kept))].time
	r.From, r.exact = stream.Position{Kind: stream.FromTime, Time: t}, false
	r.first = m.start
	for _, k := range m.kept {
		if k.time >= t {
			break
		}
		r.first++
	}
	return r
}

// read reads some of a stream and compares it.
func (x *worker) read(ctx context.Context, m *model) error {
	_, err := x.readFrom(ctx, m, x.position(m))
	return err
}

// readFrom answers where the read ended.
func (x *worker) readFrom(ctx context.Context, m *model, r reading) (next stream.Offset, err error) {
	var chunk *stream.Chunk
	var from *life
	err = x.insist(ctx, func(ctx context.Context, a attempt) (err error) {
		from = a.life
		chunk, err = a.Read(ctx, m.name, r.ReadRequest)
		if err == nil && chunk.StaleMillis > 0 {
			err = stream.Errorf(stream.CodeUnavailable, "the view may be old")
		}
		return err
	})
	if err != nil {
		return 0, x.unread(m, r, err)
	}
	x.tally.reads.Add(1)
	if err := x.shown(m, &chunk.Info); err != nil {
		return 0, err
	}
	first := max(r.first, m.start)
	if r.exact && chunk.First != r.first || chunk.First != first && r.From.Kind != stream.FromTime {
		return 0, x.broken(m, "%v: read %+v begins at %d", from, r, chunk.First)
	}
	return chunk.Next, x.compare(m, r, chunk, from)
}

// unread judges a read that was refused.
func (x *worker) unread(m *model, r reading, err error) error {
	refused := asRefusal(err)
	switch code := stream.CodeOf(err); {
	case code == stream.CodeTrimmed:
		if err := x.started(m, refused.Start); err != nil {
			return err
		}
		if r.exact && r.first < m.start {
			return nil
		}
		if !r.exact && refused.Start == m.start {
			return nil // the start moved while it was read
		}
	case code == stream.CodeBeyondTail && r.exact && r.first > m.tail() && refused.Tail == m.tail():
		return nil
	}
	return x.refused(m, "read", err)
}

// compare compares a chunk with what the stream must hold.
func (x *worker) compare(m *model, r reading, c *stream.Chunk, from *life) error {
	at, size := c.First, 0
	for i := range c.Runs {
		run := &c.Runs[i]
		if run.First != at || run.JSON != m.json {
			return x.broken(m, "%v: a run at %d, JSON %v, of a read %+v begins at %d", from, run.First, run.JSON, r, at)
		}
		for j := range run.Len() {
			if at < m.start { // retention moved the start after it was read
				at++
				continue
			}
			if at >= m.tail() {
				return x.broken(m, "%v: record %d is none", from, at)
			}
			want := m.at(at)
			if got := run.Body(j); !bytes.Equal(want.body(m.json), got) {
				return x.broken(m, "%v: record %d is %.60q and not %.60q", from, at, got, want.body(m.json))
			}
			if want.time == 0 {
				want.time = run.Time
			}
			if run.Time != want.time {
				return x.broken(m, "%v: record %d has the time %d and not %d", from, at, run.Time, want.time)
			}
			at++
			size += len(run.Body(j))
			x.tally.read.Add(1)
		}
	}
	n := int(c.Next - c.First)
	switch {
	case at != c.Next, c.UpToDate != (c.Next == m.tail()), n == 0 && c.First < m.tail():
		return x.broken(m, "%v: a read %+v of [%d,%d), up to date %v, has records up to %d", from, r, c.First, c.Next, c.UpToDate, at)
	case n > 1 && size > r.MaxBytes, r.MaxRecords > 0 && n > r.MaxRecords:
		return x.broken(m, "%v: a read %+v has %d records with %d bytes", from, r, n, size)
	}
	return nil
}

// readAll reads every stream from its start to its tail.
func (x *worker) readAll(ctx context.Context) error {
	for _, m := range append([]*model(nil), x.streams...) {
		r := reading{ReadRequest: stream.ReadRequest{MaxBytes: 64 << 10, From: stream.Position{Kind: stream.FromStart}}, first: m.start}
		for again := true; again; {
			next, err := x.readFrom(ctx, m, r)
			if err != nil {
				return err
			}
			again = next > 0 && next < m.tail()
			r.From, r.first = stream.At(next), next
		}
	}
	return nil
}

// follow waits for what an append brings.
func (x *worker) follow(ctx context.Context, m *model) error {
	if m.closed || m.config.Expiry.Kind != stream.ExpiresNever {
		return x.append(ctx, m)
	}
	l, err := x.any(x.random).enter(ctx)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, answerTakes)
	defer cancel()
	after := m.tail()
	woken := make(chan error, 1)
	go func() {
		defer l.leave()
		i, err := l.Wait(waiting, stream.WaitRequest{ID: m.id, After: after})
		if err == nil && i.Tail <= after {
			err = x.failf("%v: a follower of %s after %d was woken at %d", l, m.name, after, i.Tail)
		}
		woken <- err
	}()
	go func() { // a node that stops does not wait for followers
		select {
		case <-l.ending:
			cancel()
		case <-waiting.Done():
		}
	}()
	if err := x.append(ctx, m); err != nil {
		return err
	}
	select {
	case err = <-woken:
	case <-time.After(answerTakes / 2):
		return x.broken(m, "%v: a follower after %d was not woken", l, after)
	}
	if l.crashed.Load() || stream.CodeOf(err) == stream.CodeUnavailable || errors.Is(err, context.Canceled) {
		return nil // its node is gone, or cannot tell
	}
	if err == nil {
		x.tally.waits.Add(1)
	}
	return err
}
