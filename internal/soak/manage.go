package soak

import (
	"context"
	"errors"
	"time"

	"github.com/picomq/picomq/stream"
)

// asRefusal is the refusal in an error, which must have one.
func asRefusal(err error) *stream.Error {
	var refused *stream.Error
	if !errors.As(err, &refused) {
		return &stream.Error{Message: err.Error()}
	}
	return refused
}

// close closes a stream.
func (x *worker) close(ctx context.Context, m *model) error {
	if x.random.IntN(3) > 0 {
		return nil // most streams stay open
	}
	m.note("close at %d", m.tail())
	err := x.insist(ctx, func(ctx context.Context, a attempt) error {
		before := time.Now()
		_, err := a.Append(ctx, m.name, &stream.AppendRequest{Close: true})
		if err == nil {
			m.used = before
		}
		return err
	})
	if err != nil {
		return x.refused(m, "close", err)
	}
	m.closed = true
	x.tally.closed.Add(1)
	return nil
}

// trim drops the records below some offset.
func (x *worker) trim(ctx context.Context, m *model) error {
	to := m.start + stream.Offset(x.random.IntN(len(m.kept)+1))
	m.note("trim to %d", to)
	var i stream.Info
	err := x.insist(ctx, func(ctx context.Context, a attempt) (err error) {
		before := time.Now()
		i, err = a.Trim(ctx, m.name, to)
		if err == nil {
			m.used = before
		}
		return err
	})
	if err != nil {
		return x.refused(m, "trim", err)
	}
	if i.Start < to || i.Tail != m.tail() || i.ID != m.id {
		return x.broken(m, "a trim to %d was answered %+v", to, i)
	}
	m.moveStart(to)
	return x.started(m, i.Start)
}

// remove deletes a stream. Its name is bound anew some time later, unless it has
// forks.
func (x *worker) remove(ctx context.Context, m *model) error {
	m.note("delete")
	err := x.insist(ctx, func(ctx context.Context, a attempt) error {
		err := a.Delete(ctx, m.name)
		if code := stream.CodeOf(err); err != nil && a.unknown && (code == stream.CodeNotFound || code == stream.CodeDeleted && m.forked) {
			return nil
		}
		if err != nil {
			m.note("%v: %v", a.life, err)
		}
		return err
	})
	if err != nil {
		return x.refused(m, "delete", err)
	}
	x.tally.deleted.Add(1)
	x.gone(m)
	return nil
}

// fork makes a stream that begins with a part of another.
func (x *worker) fork(ctx context.Context, p *model) error {
	if len(x.streams) >= mostStreams {
		return nil
	}
	at := p.start + stream.Offset(x.random.IntN(len(p.kept)+1))
	f := &stream.ForkRequest{From: p.name, At: &at}
	m := &model{name: x.name(), config: x.heir(p), json: p.json, used: time.Now()}
	m.start, m.kept = p.start, append([]record(nil), p.kept[:at-p.start]...)
	if left := p.kept[at-p.start:]; len(left) > 0 && x.random.IntN(2) == 0 {
		switch {
		case p.json:
			f.Sub = 1 + x.random.Uint64N(uint64(len(left)))
			m.kept = append(m.kept, left[:f.Sub]...)
		case left[0].size > 0:
			f.Sub = 1 + x.random.Uint64N(uint64(left[0].size))
			cut := left[0]
			cut.size = uint32(f.Sub)
			m.kept = append(m.kept, cut)
		}
	}
	p.note("fork to %s at %d and %d", m.name, at, f.Sub)
	m.note("fork of %s at %d and %d", p.name, at, f.Sub)
	p.forked = true // also if it comes to nothing
	return x.forkAs(ctx, p, m, &stream.CreateRequest{Config: stream.Config{Retention: m.config.Retention}, Fork: f})
}

// heir is the configuration of a fork: its parent's, at times with a retention of
// its own.
func (x *worker) heir(p *model) stream.Config {
	c := p.config
	if x.random.IntN(4) == 0 {
		c.Retention = stream.Retention{Bytes: 1 + x.random.Uint64N(10<<10)}.Or(c.Retention)
	}
	return c
}

func (x *worker) forkAs(ctx context.Context, p, m *model, r *stream.CreateRequest) error {
	var made stream.Created
	err := x.insist(ctx, func(ctx context.Context, a attempt) (err error) {
		m.used = time.Now()
		made, err = a.Create(ctx, m.name, r)
		if err == nil && !made.New && !a.unknown {
			return x.broken(m, "%v: the fork found a stream that nobody made: %+v", a.life, made.Info)
		}
		return err
	})
	if err != nil {
		x.free = append(x.free, m.name)
		if stream.CodeOf(err) == stream.CodeTrimmed {
			return x.started(p, asRefusal(err).Start)
		}
		return x.refused(p, "fork", err)
	}
	x.tally.created.Add(1)
	x.tally.forked.Add(1)
	m.id = made.ID
	x.streams = append(x.streams, m)
	if start := made.Start; start > m.start && start <= m.tail() && p.mayStart(start) {
		m.moveStart(start) // the parent's
	}
	return x.shown(m, &made.Info)
}
