package soak

import (
	"context"
	"fmt"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
	"github.com/picomq/picomq/upkeep"
)

const restTakes = 10 * time.Minute // at most, until all jobs have come to rest

// settle ends the faults, lets the jobs come to rest, and checks that nothing is
// lost and nothing left over.
func (w *world) settle(ctx context.Context, workers []*worker) error {
	w.calm.Store(true)
	since := time.Now() // faults are over
	err := w.once(ctx, func(l *life) error {
		if err := w.rest(ctx, l, workers, since); err != nil {
			return err
		}
		if err := w.bounded(ctx, l); err != nil {
			return err
		}
		return w.readEverything(ctx, l, workers, since)
	})
	if err != nil {
		return err
	}
	// What a start makes of it.
	return w.once(ctx, func(l *life) error { return w.readEverything(ctx, l, workers, since) })
}

// once gives each node a life without faults and without jobs, does something
// with the first, and looks at what the bucket has after their end.
func (w *world) once(ctx context.Context, do func(*life) error) error {
	for _, s := range w.seats {
		l, err := w.start(ctx, &s.number, s.random.Uint64())
		if err != nil {
			return w.failf("start without faults: %w", err)
		}
		w.tally.lives.Add(1)
		s.set(l)
	}
	first, _ := w.seats[0].now()
	err := do(first)
	for _, s := range w.seats {
		l, _ := s.now()
		s.set(nil)
		l.stop()
	}
	if err != nil {
		return err
	}
	return w.accounted(ctx, first)
}

// rest runs the jobs until none has anything to do.
func (w *world) rest(ctx context.Context, l *life, workers []*worker, since time.Time) error {
	begun := w.hurried()
	for quiet := 0; ; {
		w.skipped.Add(int64(upkeep.TickEvery))
		err := l.upkeep.Step(ctx, w.hurried())
		left := w.unrest(l, begun)
		if left == "" {
			left = unretained(l, workers, since)
		}
		if err != nil {
			left = err.Error()
		}
		if quiet++; left != "" {
			quiet = 0
		}
		if quiet > int(upkeep.TickEvery/time.Second) { // each job had its turn
			return w.look(ctx, l)
		}
		if time.Since(since) > restTakes {
			return w.failf("the jobs are not at rest after %v: %s", restTakes, left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// unrest is what is left to do, after the bucket was compared with the log once
// more since a moment of the jobs' clock.
func (w *world) unrest(l *life, begun time.Time) string {
	view := l.replica.View()
	c, stats := view.Counts(), l.replica.Stats()
	switch {
	case c.Dead > 0:
		return fmt.Sprintf("%d segments are dead, %d of them doomed", c.Dead, c.Doomed)
	case c.Expiring > 0:
		return fmt.Sprintf("%d streams can expire", c.Expiring)
	case stats.LogRows > 2*commands.Index(w.keepRows):
		return fmt.Sprintf("%d rows are in SQL: first %d, archived %d, snapshot %d", stats.LogRows, stats.FirstKept, stats.Archived, stats.SnapshotIndex)
	case l.upkeep.Swept().Ended.Before(begun):
		return "the bucket was not compared with the log"
	case l.upkeep.Swept().Orphans > 0:
		return "orphans were deleted"
	}
	if n, bytes := small(l); bytes > uint64(w.packedBytes) {
		return fmt.Sprintf("%d small segments are left, which have %d bytes", n, bytes)
	}
	for _, s := range l.upkeep.Status() {
		// Of these two it is the streams to look at, for ever.
		if s.Backlog > 0 && s.Job != "expire" && s.Job != "retain" {
			return fmt.Sprintf("%s has %d to do", s.Job, s.Backlog)
		}
	}
	return ""
}

// unretained is a stream that retention has to look at yet.
func unretained(l *life, workers []*worker, since time.Time) string {
	view := l.replica.View()
	for _, x := range workers {
		for _, m := range x.streams {
			if st, ok := view.Stream(m.id); ok && m.mayStart(st.Start) && st.Start > m.start {
				m.moveStart(st.Start)
			}
			if m.overdue(since) {
				return fmt.Sprintf("%s keeps more than %+v", m.name, m.config.Retention)
			}
		}
	}
	return ""
}

// small is how many segments were not compacted, and their bytes.
func small(l *life) (n, bytes uint64) {
	list, _ := l.replica.View().Segments(0, 1<<30)
	for i := range list {
		if list[i].Level == 0 {
			n, bytes = n+1, bytes+list[i].Size
		}
	}
	return n, bytes
}

// mostPacked is by how much packed segments may be more than those that are full.
// Eight that hold the same streams are merged; whatever else is between.
const mostPacked = 8

// bounded checks that what is left is in proportion to what streams hold.
func (w *world) bounded(ctx context.Context, l *life) error {
	c := l.replica.View().Counts()
	if c.Dead > 0 || c.Doomed > 0 {
		return w.failf("%d segments are dead", c.Dead)
	}
	few, bytes := small(l)
	if most := mostPacked * (1 + (c.SegmentBytes-bytes)/uint64(w.packedBytes)); c.Segments-few > most {
		return w.failf("%d packed segments hold %d bytes, at most %d should", c.Segments-few, c.SegmentBytes-bytes, most)
	}
	rows, err := l.log.RowCount(ctx)
	if err != nil {
		return err
	}
	if rows > 2*int64(w.keepRows) {
		return w.failf("%d rows are in SQL", rows)
	}
	return nil
}

// readEverything compares all streams with the models, and their list.
func (w *world) readEverything(ctx context.Context, l *life, workers []*worker, since time.Time) error {
	known := map[stream.Name]bool{}
	for _, x := range workers {
		if err := x.readAll(ctx); err != nil {
			return err
		}
		for _, m := range x.streams {
			known[m.name] = true
			if m.config.Expiry.Kind != stream.ExpiresNever {
				return x.broken(m, "it has not expired")
			}
			if m.overdue(since) {
				return x.broken(m, "it keeps more than it is to")
			}
		}
	}
	page, err := l.List(ctx, stream.ListRequest{Limit: 1 << 20})
	if err != nil {
		return err
	}
	for _, i := range page.Streams {
		if !known[i.Name] {
			return w.failf("there is a stream %s that must not be: %+v", i.Name, i)
		}
	}
	if len(page.Streams) != len(known) {
		return w.failf("%d streams are listed and %d known", len(page.Streams), len(known))
	}
	return nil
}
