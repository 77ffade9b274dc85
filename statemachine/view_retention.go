package statemachine

import (
	"math"

	"github.com/picomq/picomq/stream"
)

// Overdue is a stream that keeps more than its retention asks for.
type Overdue struct {
	ID   stream.ID
	Keep stream.Retention // in force: its own, and defaults for what it leaves open
	// To is as far as whole extents may go: all records below it are overdue. More
	// can be only in the extent that begins there:
	To     stream.Offset
	Aged   bool   // some of its records may be older than Keep.Age; the segment does not say which
	Excess uint64 // bytes that it has beyond Keep.Bytes, less than all of its own
}

// RetentionScan finds the streams that keep more than their retention, or the
// default for the bounds that they leave open, pass after pass. Of every 256
// neighbours it remembers from when on one of them can be overdue if none of them
// changes, so that a pass costs what changed since the last one and what came of
// age. It belongs to one goroutine.
type RetentionScan struct {
	defaults stream.Retention
	next     uint64              // page at which the pass goes on
	looks    map[uint64]pageLook // by page; of those that are there
}

// pageLook is what a look through a page told.
type pageLook struct {
	changes uint64      // of the page until then
	until   stream.Time // up to this no stream of it is overdue unless one changes
}

// NewRetentionScan begins before the first stream.
func NewRetentionScan(defaults stream.Retention) *RetentionScan {
	return &RetentionScan{defaults: defaults, looks: make(map[uint64]pageLook)}
}

// Step goes on with a pass for about maxScan streams, where 256 neighbours that
// are passed over count as one, and returns those that are overdue at a log time,
// in the order of their ids. more says that the pass is not over; else the next
// step begins a new one. All steps must be given views of one state and times
// that do not fall.
//
// A record is too old when less than the log time minus Keep.Age, and one too many
// when those after it have Keep.Bytes without it. A stream is locked while its
// extents are walked: those that are overdue, and with a bound in bytes those that
// are kept.
func (x *RetentionScan) Step(v View, maxScan int, now stream.Time) (list []Overdue, more bool) {
	last := v.s.public.lastDense.Load() / pageRows
	for scanned := 0; x.next <= last; x.next++ {
		if scanned >= maxScan {
			return list, true
		}
		scanned += x.page(v, x.next, now, &list)
	}
	x.next = 0
	return list, false
}

// page adds the overdue streams of one page and says how many it looked at.
func (x *RetentionScan) page(v View, n uint64, now stream.Time, list *[]Overdue) int {
	page := v.s.streams.at(n)
	if page == nil {
		delete(x.looks, n)
		return 1
	}
	lock := v.s.streams.lock(n)
	lock.RLock()
	changes := page.changes // before the streams are looked at: what changes meanwhile is looked at again
	lock.RUnlock()
	if last, ok := x.looks[n]; ok && last.changes == changes && now <= last.until {
		return 1
	}
	until := stream.Time(math.MaxInt64)
	for at := range uint64(pageRows) {
		o, from, ok := v.overdue(stream.MakeID(0, n*pageRows+at), x.defaults, now)
		if ok {
			*list = append(*list, o)
		}
		until = min(until, from)
	}
	x.looks[n] = pageLook{changes, until}
	return pageRows
}

// overdue looks at one stream. If it is not overdue it will not be up to a time,
// unless it changes.
func (v View) overdue(id stream.ID, defaults stream.Retention, now stream.Time) (o Overdue, until stream.Time, ok bool) {
	p, lock := v.lock(id)
	if lock == nil {
		return o, math.MaxInt64, false
	}
	defer lock.RUnlock()
	r, x := p.row(), p.extents()
	extents := x.rows
	if len(extents) == 0 {
		return o, math.MaxInt64, false
	}
	o = Overdue{ID: id, Keep: defaults, To: r.start}
	if r.retained() {
		o.Keep = p.side().retention.Or(defaults)
	}
	from, age, until := 0, stream.Time(o.Keep.Age)*1000, stream.Time(math.MaxInt64)
	if o.Keep.Age > 0 {
		from = v.aged(extents, now-age)
		in, _ := v.Segment(extents[0].Segment)
		until = in.Oldest + age
	}
	if o.Keep.Bytes > 0 {
		at, held := within(extents, o.Keep.Bytes)
		if at >= from && held > o.Keep.Bytes {
			o.Excess = held - o.Keep.Bytes
		}
		from = max(from, at)
	}
	if from == len(extents) {
		o.To = r.tail
		return o, math.MinInt64, true
	}
	if o.Keep.Age > 0 {
		in, _ := v.Segment(extents[from].Segment)
		o.Aged = in.Oldest < now-age
	}
	o.To = x.offset(r.start, from)
	if o.To > r.start || o.Aged || o.Excess > 0 {
		return o, math.MinInt64, true
	}
	return o, until, false
}

// aged is how many extents have nothing but records from before a time. Times
// never fall from record to record, so one that has ends all before it, which
// may share their segments with newer records of other streams.
func (v View) aged(extents []stored, oldest stream.Time) (n int) {
	for i, e := range extents {
		in, _ := v.Segment(e.Segment)
		if in.Oldest >= oldest {
			break
		}
		if in.Newest < oldest {
			n = i + 1
		}
	}
	return n
}

// within is from which extent on there surely are so many bytes, or all there are,
// and how many there are from there on. How many the first has is of no account:
// what it is said to have beyond the bound is looked for in its blocks.
func within(extents []stored, bytes uint64) (at int, held uint64) {
	for at = len(extents); at > 0 && held < bytes; {
		at--
		if at == 0 {
			held += uint64(extents[at].Bytes)
		} else {
			held += extents[at].from(0).atLeast()
		}
	}
	return at, held
}
