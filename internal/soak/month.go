package soak

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"gocloud.dev/blob/memblob"
	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/stream"
)

// MonthConfig says what a month is like.
type MonthConfig struct {
	Seed    uint64
	Days    int
	Streams int // that get one record and are idle then
	Busy    int // that are appended to for ever
	Log     func(format string, args ...any)
}

// The month's pace.
const (
	// sometimes is between two looks of the jobs. In between the clock of log time
	// is moved by ticks, of which none moves it by more than sliding deadlines count.
	sometimes  = 5 * time.Minute
	monthTick  = 30 * time.Second
	sessionTTL = time.Hour
	// atOnce is how many requests are under way.
	atOnce = 64
	// pointEvery is between two points of the curve.
	pointEvery = 24 * time.Hour
)

// month is a simulated month under way.
type month struct {
	*world
	MonthConfig
	l        *life
	seat     *seat
	busy     []*busyStream
	sessions []stream.Name // that were made in the last hour, but for those that were deleted
	made     int           // sessions
	curved   time.Time
}

// Month lives through days of many streams on a clock that is moved by hand, with
// a crash a day, and checks what is left at the end as [Run] does.
func Month(ctx context.Context, c MonthConfig) (*Report, error) {
	m := newMonth(c)
	err := m.live(ctx)
	return m.report(), err
}

func newMonth(c MonthConfig) *month {
	w := &world{
		Config: Config{Seed: c.Seed, Nodes: 1, Log: c.Log}, memory: sqllogtest.NewMemory(), shared: memblob.OpenBucket(nil), clock: new(atomic.Int64),
		bounds: bounds{
			packedBytes: 1 << 20, tailBytes: 4 << 20, blockBytes: 8 << 20, segmentBytes: 4 << 20, grace: 90 * time.Second,
			// In the end rows that need a snapshot are few, so that its age counts, by
			// the system's clock; hours of rows are written meanwhile by the other.
			keepRows:      1000 + c.Streams/200,
			snapshotBytes: int64(1<<20 + 64*c.Streams), snapshotAge: 500*time.Millisecond + time.Duration(c.Streams)*20*time.Microsecond,
			deadline: 30 * time.Second, sweepAfter: 10 * time.Minute, sweepEvery: time.Hour, interval: 5 * time.Millisecond,
		},
	}
	w.calm.Store(true) // but for crashes
	w.began = time.Date(2031, time.January, 1, 0, 0, 0, 0, time.UTC)
	w.clock.Store(w.began.UnixMilli())
	w.memory.Now = w.now
	m := &month{world: w, MonthConfig: c, seat: newSeat(w, c.Seed)}
	w.seats = []*seat{m.seat}
	return m
}

func (m *month) live(ctx context.Context) error {
	if err := m.restart(ctx); err != nil {
		return err
	}
	defer func() { m.l.stop() }()
	if err := m.populate(ctx); err != nil {
		return err
	}
	begun := time.Now()
	for day := range m.Days {
		for end := m.now().Add(24 * time.Hour); m.now().Before(end); {
			if err := m.work(ctx); err != nil {
				return fmt.Errorf("day %d: %w", day, err)
			}
			if err := m.pass(ctx); err != nil {
				return fmt.Errorf("day %d: %w", day, err)
			}
		}
		if err := m.crash(ctx); err != nil {
			return fmt.Errorf("day %d: %w", day, err)
		}
		c := m.l.replica.View().Counts()
		m.MonthConfig.Log("day %d: %d streams, %d extents, %d segments, took %v", day, c.Streams, c.Extents, c.Segments, time.Since(begun).Round(time.Second))
	}
	return m.end(ctx)
}

// restart begins the next life.
func (m *month) restart(ctx context.Context) (err error) {
	if m.l != nil {
		m.l.stop()
	}
	m.l, err = m.start(ctx, &m.seat.number, m.seat.random.Uint64())
	if err != nil {
		return m.failf("start a node: %w", err)
	}
	m.tally.lives.Add(1)
	return nil
}

// crash lets the node die while the jobs run, at some call that they make.
func (m *month) crash(ctx context.Context) error {
	m.clock.Add(sometimes.Milliseconds())
	down := m.l.down
	for range m.seat.random.IntN(4) {
		_ = m.l.upkeep.Step(ctx, m.now())
		m.clock.Add(upkeepLooks.Milliseconds())
	}
	dying, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // nothing is tried again after the end
		select {
		case <-down:
			cancel()
		case <-dying.Done():
		}
	}()
	m.l.arm()
	_ = m.l.upkeep.Step(dying, m.now())
	return m.restart(ctx)
}

// upkeepLooks is more than any job but the sweep waits from one pass to the next.
const upkeepLooks = time.Minute

// pass lets time go by, and the jobs look then.
func (m *month) pass(ctx context.Context) error {
	for range sometimes / monthTick {
		m.clock.Add(monthTick.Milliseconds())
		if _, err := m.l.replica.Propose(ctx, &commands.Tick{}); err != nil {
			return m.failf("tick: %w", err)
		}
	}
	if err := m.l.upkeep.Step(ctx, m.now()); err != nil {
		return m.failf("the jobs: %w", err)
	}
	if m.now().Sub(m.curved) < pointEvery {
		return nil
	}
	m.curved = m.now()
	return m.look(ctx, m.l)
}

// populate makes the idle streams and the busy ones.
func (m *month) populate(ctx context.Context) error {
	const chunk = 1 << 15
	for from := 0; from < m.Streams; from += chunk {
		var all errgroup.Group
		all.SetLimit(16 * atOnce)
		for i := from; i < min(from+chunk, m.Streams); i++ {
			all.Go(func() error { return m.create(ctx, idle(i), stream.Config{}, []byte(idle(i))) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
		if err := m.pass(ctx); err != nil {
			return err
		}
	}
	for i := range m.Busy {
		b := &busyStream{name: stream.Name(fmt.Sprintf("busy/%d", i))}
		switch i % 3 {
		case 1:
			b.keep.Age = 24 * 60 * 60
		case 2:
			b.keep.Bytes = 16 << 10
		}
		if err := m.create(ctx, b.name, stream.Config{Retention: b.keep}, b.body(0)); err != nil {
			return err
		}
		b.tail = 1
		m.busy = append(m.busy, b)
	}
	return nil
}

// idle is the name, and the record, of an idle stream.
func idle(i int) stream.Name { return stream.Name(fmt.Sprintf("idle/%07d", i)) }

func (m *month) create(ctx context.Context, name stream.Name, c stream.Config, body []byte) error {
	c.ContentType = "text/plain"
	made, err := m.l.Create(ctx, name, &stream.CreateRequest{Config: c, Records: []stream.Record{{Body: body}}})
	if err != nil || !made.New {
		return m.failf("create %s, new %v: %w", name, made.New, err)
	}
	m.tally.created.Add(1)
	m.tally.records.Add(1)
	return nil
}

// work is what clients do at a time of the day: at night little, at noon much.
func (m *month) work(ctx context.Context) error {
	hour := m.now().UTC().Hour()
	load := 1 + min(hour, 24-hour) // 1 to 13
	var all errgroup.Group
	all.SetLimit(atOnce)
	random := m.seat.random
	chosen := map[int]bool{}
	for range load {
		at := int(float64(len(m.busy)) * random.Float64() * random.Float64()) // some are busier
		if chosen[at] {
			continue
		}
		chosen[at] = true
		b, n := m.busy[at], 1+random.IntN(8)
		all.Go(func() error { return m.append(ctx, b, n) })
	}
	for range load / 2 {
		name := stream.Name(fmt.Sprintf("session/%d", m.made))
		m.made++
		m.sessions = append(m.sessions, name)
		all.Go(func() error {
			return m.create(ctx, name, stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: uint64(sessionTTL / time.Second)}}, []byte(name))
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return m.forget(ctx)
}

// forget deletes some sessions, and leaves most of them to their deadline.
func (m *month) forget(ctx context.Context) error {
	const most = 30 // fewer than are made in an hour of the day
	random := m.seat.random
	if n := len(m.sessions); n > 0 && random.IntN(3) == 0 {
		at := max(0, n-10) + random.IntN(min(n, 10))
		if err := m.l.Delete(ctx, m.sessions[at]); err != nil && stream.CodeOf(err) != stream.CodeNotFound {
			return m.failf("delete %s: %w", m.sessions[at], err)
		}
		m.tally.deleted.Add(1)
		m.sessions = append(m.sessions[:at], m.sessions[at+1:]...)
	}
	if n := len(m.sessions); n > most {
		m.sessions = append(m.sessions[:0], m.sessions[n-most:]...)
	}
	return nil
}
