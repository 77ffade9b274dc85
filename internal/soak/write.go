package soak

import (
	"context"
	"time"

	"github.com/picomq/picomq/stream"
)

// draw makes records, a few or many, small or not.
func (x *worker) draw(json bool) []record {
	list := make([]record, 1+x.random.IntN(4))
	if x.random.IntN(20) == 0 {
		list = make([]record, 1+x.random.IntN(100))
	}
	for i := range list {
		list[i] = record{seed: x.random.Uint64(), size: uint32(x.random.IntN(200))}
		if x.random.IntN(50) == 0 {
			list[i].size = uint32(x.random.IntN(8 << 10))
		}
		if json {
			list[i].size += 2
		}
	}
	return list
}

func bodies(list []record, json bool) []stream.Record {
	out := make([]stream.Record, len(list))
	for i, r := range list {
		out[i].Body = r.body(json)
	}
	return out
}

// config draws a configuration.
func (x *worker) config() (c stream.Config) {
	c.ContentType = []string{"text/plain", "application/octet-stream", "application/json"}[x.random.IntN(3)]
	switch x.random.IntN(6) {
	case 0:
		c.Expiry = stream.Expiry{Kind: stream.ExpiresIdle, TTL: 1 + x.random.Uint64N(3)}
	case 1:
		c.Expiry = stream.Expiry{Kind: stream.ExpiresAt, At: stream.Time(time.Now().Add(time.Duration(x.random.IntN(5000)) * time.Millisecond).UnixMilli())}
	case 2:
		c.Retention.Age = 1 + x.random.Uint64N(3)
	case 3:
		c.Retention.Bytes = 1 + x.random.Uint64N(20<<10)
	}
	return c
}

// create makes a stream, often with its first records.
func (x *worker) create(ctx context.Context) error {
	m := &model{name: x.name(), config: x.config(), used: time.Now()}
	m.json = stream.IsJSON(m.config.ContentType)
	if x.random.IntN(3) > 0 {
		m.kept = x.draw(m.json)
	}
	m.closed = x.random.IntN(20) == 0
	m.note("create with %d records, closed %v", len(m.kept), m.closed)
	r := &stream.CreateRequest{Config: m.config, Closed: m.closed, Records: bodies(m.kept, m.json)}
	made, err := x.make(ctx, m, r)
	if err != nil {
		return err
	}
	m.id = made.ID
	if err := x.shown(m, &made.Info); err != nil {
		return err
	}
	x.streams = append(x.streams, m)
	return nil
}

// make insists on a create.
func (x *worker) make(ctx context.Context, m *model, r *stream.CreateRequest) (made stream.Created, err error) {
	err = x.insist(ctx, func(ctx context.Context, a attempt) (err error) {
		m.used = time.Now()
		made, err = a.Create(ctx, m.name, r)
		if err == nil && !made.New && !a.unknown {
			return x.broken(m, "%v: the create found a stream that nobody made: %+v", a.life, made.Info)
		}
		return err
	})
	if err != nil {
		return made, x.broken(m, "create: %w", err)
	}
	x.tally.created.Add(1)
	x.tally.records.Add(int64(len(r.Records)))
	if made.New {
		for i := range m.kept {
			if m.kept[i].time == 0 {
				m.kept[i].time = made.Created
			}
		}
	}
	return made, nil
}

// append appends as a producer, or under the condition of the tail, or without
// either, so that the outcome is found out in three ways.
func (x *worker) append(ctx context.Context, m *model) error {
	if m.closed {
		return x.refusedClosed(ctx, m)
	}
	list := x.draw(m.json)
	r := &stream.AppendRequest{Records: bodies(list, m.json), Close: x.random.IntN(200) == 0}
	var out stream.Appended
	var err error
	switch x.random.IntN(4) {
	case 0, 1:
		out, err = x.produce(ctx, m, r)
	case 2:
		out, err = x.appendIf(ctx, m, r)
	default:
		out, err = x.appendOnce(ctx, m, r)
	}
	if err != nil {
		return x.refused(m, "append", err)
	}
	if out.Next != m.tail()+stream.Offset(len(list)) || out.FirstKnown && out.First != m.tail() || out.Closed != r.Close {
		return x.broken(m, "an append of %d records, closing %v, was answered %+v", len(list), r.Close, out)
	}
	if !out.Duplicate && out.FirstKnown {
		for i := range list {
			list[i].time = out.Time
		}
	}
	m.kept = append(m.kept, list...)
	m.closed = m.closed || r.Close
	x.tally.records.Add(int64(len(list)))
	return nil
}

// produce appends as an idempotent producer, repeating until it is answered.
func (x *worker) produce(ctx context.Context, m *model, r *stream.AppendRequest) (out stream.Appended, err error) {
	if x.random.IntN(40) == 0 {
		m.producer.Epoch, m.producer.Seq = m.producer.Epoch+1, 0
	}
	p := m.producer
	p.ID = "producer"
	r.Producer = &p
	m.note("append of %d at %d as %+v, closing %v", len(r.Records), m.tail(), p, r.Close)
	err = x.insist(ctx, func(ctx context.Context, a attempt) (err error) {
		before := time.Now()
		out, err = a.Append(ctx, m.name, r)
		if err != nil {
			m.note("%v: %v", a.life, err)
			return err
		}
		if m.used = before; out.Duplicate && !a.unknown {
			return x.broken(m, "%v: what was not written before is a duplicate: %+v", a.life, out)
		}
		return nil
	})
	if err == nil {
		m.producer.Seq++
	}
	return out, err
}

// appendIf appends if the tail is where it must be. When a try has an unknown
// outcome and the next one finds another tail, the first has happened.
func (x *worker) appendIf(ctx context.Context, m *model, r *stream.AppendRequest) (out stream.Appended, err error) {
	at := m.tail()
	r.Match = &at
	m.note("append of %d if at %d, closing %v", len(r.Records), at, r.Close)
	err = x.insist(ctx, func(ctx context.Context, a attempt) (err error) {
		before := time.Now()
		out, err = a.Append(ctx, m.name, r)
		if code := stream.CodeOf(err); err != nil && a.unknown && (code == stream.CodeMatchFailed || code == stream.CodeClosed && r.Close) {
			out, err = stream.Appended{Next: asRefusal(err).Tail, Closed: r.Close}, nil
		}
		if err != nil {
			m.note("%v: %v", a.life, err)
			return err
		}
		m.used = before
		return nil
	})
	return out, err
}

// appendOnce appends without anything that would let it be repeated. When its
// outcome is unknown it waits until it must be decided, and looks.
func (x *worker) appendOnce(ctx context.Context, m *model, r *stream.AppendRequest) (out stream.Appended, err error) {
	m.note("append of %d at %d, closing %v", len(r.Records), m.tail(), r.Close)
	var doubtful *life
	err = x.insist(ctx, func(ctx context.Context, a attempt) (err error) {
		if doubtful != nil {
			var happened bool
			out, happened, err = x.decided(ctx, a, m, doubtful)
			if err == nil && !happened {
				doubtful = nil
				err = stream.Errorf(stream.CodeUnavailable, "the append did not happen")
			}
			return err
		}
		before := time.Now()
		out, err = a.Append(ctx, m.name, r)
		if err != nil {
			m.note("%v: %v", a.life, err)
			if stream.CodeOf(err) == stream.CodeOutcomeUnknown || ctx.Err() != nil {
				doubtful = a.life
			}
			return err
		}
		m.used = before
		return nil
	})
	return out, err
}

// decided waits for the end of the life that did not know, or long enough, and
// looks whether the append happened. If not it may be sent again.
func (x *worker) decided(ctx context.Context, a attempt, m *model, doubtful *life) (out stream.Appended, happened bool, err error) {
	select {
	case <-doubtful.ended:
	case <-time.After(requestTakes / 2):
		if a.life != doubtful {
			return out, false, stream.Errorf(stream.CodeUnavailable, "the life that knows goes on")
		}
	case <-ctx.Done():
		return out, false, ctx.Err()
	}
	i, err := a.Head(ctx, m.name)
	if err == nil && i.StaleMillis > 0 {
		err = stream.Errorf(stream.CodeUnavailable, "the view may be old")
	}
	if err != nil {
		return out, false, err
	}
	happened = i.Tail != m.tail()
	m.note("that it happened is %v", happened)
	return stream.Appended{Next: i.Tail, Closed: i.Closed}, happened, nil
}

// refusedClosed appends to a closed stream, which must be refused.
func (x *worker) refusedClosed(ctx context.Context, m *model) error {
	err := x.insist(ctx, func(ctx context.Context, a attempt) error {
		_, err := a.Append(ctx, m.name, &stream.AppendRequest{Records: bodies(x.draw(m.json), m.json)})
		return err
	})
	if err == nil {
		return x.broken(m, "a closed stream took an append")
	}
	if stream.CodeOf(err) != stream.CodeClosed {
		return x.refused(m, "append to a closed stream", err)
	}
	if tail := asRefusal(err).Tail; tail != m.tail() {
		return x.broken(m, "it is said to be closed at %d", tail)
	}
	return nil
}
