package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/memstreams"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// TestForksAgainstAModel grows random trees of forks in the engine and in
// memstreams, which copies what a fork inherits, and compares every answer, what
// can be read, and what each segment counts as its references.
func TestForksAgainstAModel(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t)
			w.clock.Store(int64(memstreams.Epoch) - time.Now().UnixMilli())
			p := &pair{t: t, w: w, rng: rand.New(rand.NewPCG(seed, 3)), fast: w.start(nil), slow: memstreams.New()}
			for range 30 {
				for range 8 {
					p.step()
				}
				p.compare(p.names(3)...)
				p.age()
				p.checkReferences()
				if p.rng.IntN(6) == 0 {
					p.restart()
				}
			}
			p.compare(everyName...)
			p.deleteAll()
		})
	}
}

// The clock moves in steps of 100 s, and what expires does so half-way between
// two of them: the time that a test takes decides nothing.
const (
	tick    = 100 * time.Second
	halfWay = tick / 2
)

// everyName is few names, so that they are used again and again.
var everyName = func() (names []stream.Name) {
	for i := range 16 {
		names = append(names, stream.Name(fmt.Sprint("s", i)))
	}
	return names
}()

// pair is an engine and its model.
type pair struct {
	t    *testing.T
	w    *world
	rng  *rand.Rand
	fast *node
	slow *memstreams.Streams
	now  time.Duration // since memstreams.Epoch
}

func (p *pair) name() stream.Name { return everyName[p.rng.IntN(len(everyName))] }

// pick is a name that is taken, or free, most of the time.
func (p *pair) pick(taken bool) (name stream.Name) {
	for range 4 {
		name = p.name()
		if _, err := p.slow.Inspect(p.t.Context(), name); taken == (err == nil) {
			break
		}
	}
	return name
}

func (p *pair) names(n int) (names []stream.Name) {
	for range n {
		names = append(names, p.name())
	}
	return names
}

// same requires both answers to be refusals by the same rule, or none.
func (p *pair) same(what string, fast, slow error) bool {
	p.t.Helper()
	if fast == nil && slow == nil {
		return true
	}
	require.Truef(p.t, fast != nil && slow != nil, "%s: engine: %v, model: %v", what, fast, slow)
	require.Equalf(p.t, stream.CodeOf(slow), stream.CodeOf(fast), "%s: engine: %v, model: %v", what, fast, slow)
	return false
}

// step does one thing to both.
func (p *pair) step() {
	ctx, name := p.t.Context(), p.pick(true)
	switch p.rng.IntN(12) {
	case 0:
		p.create(p.pick(false), &stream.CreateRequest{Config: p.config(), Closed: p.rng.IntN(10) == 0})
	case 1, 2, 3, 4:
		r := &stream.CreateRequest{Fork: p.fork(), Closed: p.rng.IntN(10) == 0}
		if p.rng.IntN(4) == 0 {
			r.Config = p.config()
		}
		p.create(p.pick(false), r)
	case 5, 6, 7, 8:
		p.append(name)
	case 9:
		to := stream.Offset(p.rng.IntN(12))
		fast, err := p.fast.Trim(ctx, name, to)
		slow, slowErr := p.slow.Trim(ctx, name, to)
		if p.same("trim "+string(name), err, slowErr) {
			require.Equal(p.t, slow.Start, fast.Start)
		}
	default:
		p.same("delete "+string(name), p.fast.Delete(ctx, name), p.slow.Delete(ctx, name))
	}
}

func (p *pair) config() stream.Config {
	c := stream.Config{ContentType: []string{"text/plain", "Text/Plain; charset=utf-8", "application/json"}[p.rng.IntN(3)]}
	switch p.rng.IntN(5) {
	case 0:
		c.Expiry = stream.Expiry{Kind: stream.ExpiresIdle, TTL: uint64((2*tick + halfWay).Seconds())}
	case 1:
		at := p.now + time.Duration(1+p.rng.IntN(5))*tick + halfWay
		c.Expiry = stream.Expiry{Kind: stream.ExpiresAt, At: memstreams.Epoch + stream.Time(at.Milliseconds())}
	}
	return c
}

// fork asks for a place that the parent has, or has not.
func (p *pair) fork() *stream.ForkRequest {
	f := &stream.ForkRequest{From: p.pick(true)}
	if p.rng.IntN(3) > 0 {
		at := stream.Offset(p.rng.IntN(16))
		if info, err := p.slow.Head(p.t.Context(), f.From); err == nil && p.rng.IntN(10) > 0 {
			at = info.Start + stream.Offset(p.rng.IntN(int(info.Tail-info.Start)+1))
		}
		f.At = &at
	}
	if p.rng.IntN(2) == 0 && (f.At != nil || p.rng.IntN(10) == 0) {
		f.Sub = uint64(p.rng.IntN(5))
	}
	return f
}

// create creates in both. What is asked for is sometimes asked for again.
func (p *pair) create(name stream.Name, r *stream.CreateRequest) {
	r.Records = p.records(p.rng.IntN(3), "")
	for range 1 + p.rng.IntN(2) {
		fast, err := p.fast.Create(p.t.Context(), name, r)
		slow, slowErr := p.slow.Create(p.t.Context(), name, r)
		if p.same(fmt.Sprintf("create %s %+v", name, r), err, slowErr) {
			require.Equal(p.t, slow.New, fast.New)
			p.sameInfo(&slow.Info, &fast.Info)
		}
	}
}

func (p *pair) append(name stream.Name) {
	info, err := p.slow.Head(p.t.Context(), name)
	r := &stream.AppendRequest{Close: p.rng.IntN(20) == 0}
	if err == nil {
		r.ContentType = info.Config.ContentType
	}
	r.Records = p.records(1+p.rng.IntN(4), r.ContentType)
	fast, err := p.fast.Append(p.t.Context(), name, r)
	slow, slowErr := p.slow.Append(p.t.Context(), name, r)
	if p.same("append "+string(name), err, slowErr) {
		require.Equal(p.t, slow.First, fast.First)
		require.Equal(p.t, slow.Next, fast.Next)
	}
}

// records are numbers, which any type takes, with headers now and then.
func (p *pair) records(n int, contentType string) (list []stream.Record) {
	for range n {
		r := stream.Record{Body: []byte("1234567"[:1+p.rng.IntN(7)])}
		if p.rng.IntN(3) == 0 {
			r.Body = fmt.Append(nil, p.rng.Uint64())
		}
		if p.rng.IntN(4) == 0 && !stream.IsJSON(contentType) {
			r.Headers = []stream.Header{{Name: "n", Value: string(r.Body)}}
		}
		list = append(list, r)
	}
	return list
}

// sameInfo compares all but the moment of the creation, which is never quite the
// same.
func (p *pair) sameInfo(slow, fast *stream.Info) {
	p.t.Helper()
	want := *slow
	require.InDelta(p.t, int64(want.Created), int64(fast.Created), float64(halfWay.Milliseconds()))
	want.Created = fast.Created
	require.Equal(p.t, want, *fast)
}

// compare compares everything that can be seen of some streams.
func (p *pair) compare(names ...stream.Name) {
	p.t.Helper()
	ctx := p.t.Context()
	var touched []stream.ID
	for _, name := range names {
		fast, err := p.fast.Inspect(ctx, name)
		slow, slowErr := p.slow.Inspect(ctx, name)
		if !p.same("inspect "+string(name), err, slowErr) {
			continue
		}
		p.sameInfo(&slow.Info, &fast.Info)
		require.Equal(p.t, slow.Deleted, fast.Deleted)
		whole := stream.ReadRequest{From: stream.Position{Kind: stream.FromStart}, MaxBytes: 1 << 20}
		want, slowErr := p.slow.Read(ctx, name, whole)
		_, err = p.fast.Read(ctx, name, whole)
		if !p.same("read "+string(name), err, slowErr) {
			continue
		}
		touched = append(touched, fast.ID)
		p.compareRecords(&fast.Info, tell(want))
	}
	// The engine would do it too, but later.
	_, err := p.fast.replica.Propose(ctx, &commands.Touch{IDs: touched})
	require.NoError(p.t, err)
}

// compareRecords reads a stream from several places, in pieces of several sizes.
func (p *pair) compareRecords(info *stream.Info, want []told) {
	p.t.Helper()
	for range 3 {
		skip := p.rng.IntN(len(want) + 1)
		r := stream.ReadRequest{From: stream.At(info.Start + stream.Offset(skip)), MaxBytes: 1 + p.rng.IntN(40), MaxRecords: p.rng.IntN(4)}
		if skip < len(want) && p.rng.IntN(3) == 0 {
			for skip > 0 && want[skip-1].tick == want[skip].tick {
				skip--
			}
			middle := memstreams.Epoch + stream.Time(want[skip].tick)*stream.Time(tick.Milliseconds()) - stream.Time(halfWay.Milliseconds())
			r.From = stream.Position{Kind: stream.FromTime, Time: middle}
		}
		got := []told{}
		for {
			c, err := p.fast.Read(p.t.Context(), info.Name, r)
			require.NoError(p.t, err)
			got = append(got, tell(c)...)
			r.From = stream.At(c.Next)
			if c.UpToDate {
				require.Equal(p.t, info.Tail, c.Next)
				break
			}
			require.NotEmpty(p.t, c.Runs)
		}
		require.Equal(p.t, want[skip:], got, "%v", info)
	}
}

// told is a record as a reader is told of it.
type told struct {
	offset  stream.Offset
	body    string
	headers string
	tick    int64 // of the clock
}

func tell(c *stream.Chunk) []told {
	list := []told{}
	for i := range c.Runs {
		run := &c.Runs[i]
		since := time.Duration(run.Time-memstreams.Epoch) * time.Millisecond
		for j := range run.Len() {
			list = append(list, told{
				offset: run.First + stream.Offset(j), body: string(run.Body(j)), headers: fmt.Sprint(run.HeadersOf(j)), tick: int64((since + halfWay) / tick),
			})
		}
	}
	return list
}

// age moves both clocks, and removes what is due then, as upkeep does.
func (p *pair) age() {
	p.now += tick
	p.slow.Advance(tick)
	// One entry moves active time by no more than MaxActiveStep.
	for range 4 {
		p.w.later(tick / 4)
		_, err := p.fast.replica.Propose(p.t.Context(), &commands.Tick{})
		require.NoError(p.t, err)
	}
	ids, next := p.fast.replica.View().Due(0, 1<<20)
	require.Zero(p.t, next)
	if len(ids) > 0 {
		_, err := p.fast.replica.Propose(p.t.Context(), &commands.Expire{IDs: ids})
		require.NoError(p.t, err)
	}
}

// restart replaces the engine by one on the same log. Touches that the old one
// held back are written as it ends: all streams are touched before.
func (p *pair) restart() {
	p.compare(everyName...)
	p.fast.stop()
	p.fast = p.w.start(nil)
}

// checkReferences counts what the streams hold of each segment.
func (p *pair) checkReferences() {
	p.t.Helper()
	view := p.fast.replica.View()
	streams, more := view.List("", "", 1000)
	require.False(p.t, more)
	counts := view.Counts()
	held := make([]statemachine.Segment, counts.Segments)
	all := uint64(0)
	for _, st := range streams {
		next := st.Start
		for _, x := range view.Extents(st.ID, 0, 1<<20) {
			require.Equal(p.t, next, x.First, "%s has a gap", st.Name)
			next = x.End()
			held[x.Segment].Extents++
			held[x.Segment].Referenced += uint64(x.Bytes)
			all++
		}
		require.Equal(p.t, st.Tail, next, "%s ends early", st.Name)
	}
	require.Equal(p.t, all, counts.Extents)
	for slot := range held {
		segment, _ := view.Segment(uint32(slot))
		assert.Equal(p.t, held[slot].Extents, segment.Extents, "segment %d", slot)
		assert.Equal(p.t, held[slot].Referenced, segment.Referenced, "segment %d", slot)
	}
}

// deleteAll deletes the streams in any order: nothing of them is left.
func (p *pair) deleteAll() {
	for _, i := range p.rng.Perm(len(everyName)) {
		p.same("delete", p.fast.Delete(p.t.Context(), everyName[i]), p.slow.Delete(p.t.Context(), everyName[i]))
	}
	p.checkReferences()
	counts := p.fast.replica.View().Counts()
	left := statemachine.Counts{ // only segments, all of them dead: nothing collects them here
		Slots: counts.Segments, Segments: counts.Segments, Dead: counts.Segments,
		SegmentBytes: counts.SegmentBytes, DeadBytes: counts.SegmentBytes,
	}
	require.Equal(p.t, left, counts, strings.Join(p.left(), " "))
}

func (p *pair) left() (names []string) {
	streams, _ := p.fast.replica.View().List("", "", 1000)
	for _, st := range streams {
		names = append(names, fmt.Sprintf("%s (%d forks)", st.Name, st.Forks))
	}
	return names
}
