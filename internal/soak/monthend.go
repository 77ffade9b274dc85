package soak

import (
	"context"
	"fmt"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/stream"
)

// busyStream is one that is appended to for ever.
type busyStream struct {
	name stream.Name
	keep stream.Retention
	tail stream.Offset
}

// body is the record at an offset.
func (b *busyStream) body(at stream.Offset) []byte {
	return fmt.Appendf(nil, "%s %d %*s", b.name, at, int(at%7)*40, "")
}

func (m *month) append(ctx context.Context, b *busyStream, n int) error {
	records := make([]stream.Record, n)
	for i := range records {
		records[i].Body = b.body(b.tail + stream.Offset(i))
	}
	out, err := m.l.Append(ctx, b.name, &stream.AppendRequest{Records: records})
	if err != nil || out.First != b.tail {
		return m.failf("append to %s at %d: %+v, %w", b.name, b.tail, out, err)
	}
	b.tail += stream.Offset(n)
	m.tally.records.Add(int64(n))
	return nil
}

// end lets the jobs come to rest and checks what is left.
func (m *month) end(ctx context.Context) error {
	if err := m.come(ctx); err != nil {
		return err
	}
	if err := m.look(ctx, m.l); err != nil {
		return err
	}
	if err := m.bounded(ctx, m.l); err != nil {
		return err
	}
	c := m.l.replica.View().Counts()
	if want := m.Streams + m.Busy; c.Streams != uint64(want) {
		return m.failf("%d streams are left of %d", c.Streams, want)
	}
	if most := c.Streams + 16*uint64(m.Busy) + m.few(); c.Extents > most {
		return m.failf("%d extents of %d streams, at most %d should be", c.Extents, c.Streams, most)
	}
	if err := m.readBack(ctx); err != nil {
		return err
	}
	if err := m.restart(ctx); err != nil {
		return err
	}
	if err := m.readBack(ctx); err != nil {
		return err
	}
	m.l.replica.Close() // its mark is written, and nothing more
	return m.accounted(ctx, m.l)
}

// few is how many extents may wait to be compacted.
func (m *month) few() uint64 {
	n, _ := small(m.l)
	return n * 8
}

// come waits until the jobs have come to rest.
func (m *month) come(ctx context.Context) error {
	began, begun := time.Now(), m.now()
	for {
		if err := m.pass(ctx); err != nil {
			return err
		}
		left := m.unrest(m.l, begun)
		if left == "" {
			return nil
		}
		if time.Since(began) > restTakes+4*m.snapshotAge {
			return m.failf("the jobs are not at rest after %v: %s", m.now().Sub(begun), left)
		}
		time.Sleep(50 * time.Millisecond) // snapshots take their time
	}
}

// readBack reads all busy streams, and idle ones.
func (m *month) readBack(ctx context.Context) error {
	for _, b := range m.busy {
		if err := m.readBusy(ctx, b); err != nil {
			return err
		}
	}
	const most = 20_000
	for i := 0; i < m.Streams; i += 1 + m.Streams/most {
		c, err := m.l.Read(ctx, idle(i), stream.ReadRequest{MaxBytes: 1 << 10})
		if err != nil {
			return m.failf("read %s: %w", idle(i), err)
		}
		if c.Tail != 1 || len(c.Runs) != 1 || string(c.Runs[0].Body(0)) != string(idle(i)) {
			return m.failf("%s reads as %+v", idle(i), c)
		}
		m.tally.read.Add(1)
	}
	return nil
}

// readBusy compares a stream from its start on, and its start with what it is to
// keep.
func (m *month) readBusy(ctx context.Context, b *busyStream) error {
	var held, aged uint64
	oldest := stream.Time(m.now().Add(-time.Duration(b.keep.Age) * time.Second).UnixMilli())
	at := stream.Offset(0)
	r := stream.ReadRequest{From: stream.Position{Kind: stream.FromStart}, MaxBytes: 64 << 10}
	for first := true; first || at < b.tail; first = false {
		c, err := m.l.Read(ctx, b.name, r)
		if err != nil {
			return m.failf("read %s at %d: %w", b.name, at, err)
		}
		if c.Tail != b.tail || b.keep == (stream.Retention{}) && c.Start != 0 || !first && c.First != at {
			return m.failf("%s is [%d,%d) and not up to %d", b.name, c.Start, c.Tail, b.tail)
		}
		at = c.First
		for i := range c.Runs {
			for j := range c.Runs[i].Len() {
				body := c.Runs[i].Body(j)
				if string(body) != string(b.body(at)) {
					return m.failf("record %d of %s is %q", at, b.name, body)
				}
				if at++; c.Runs[i].Time < oldest {
					aged += uint64(len(body))
				}
				held += uint64(len(body))
				m.tally.read.Add(1)
			}
		}
		r.From = stream.At(at)
		if len(c.Runs) == 0 {
			break
		}
	}
	if b.keep.Age > 0 && aged > blobwal.MaxBlockBytes || b.keep.Bytes > 0 && held > b.keep.Bytes+2*blobwal.MaxBlockBytes {
		return m.failf("%s keeps %d bytes, %d of them too old, and is to keep %+v", b.name, held, aged, b.keep)
	}
	return nil
}
