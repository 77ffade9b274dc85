package statemachine

import (
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

// Overdue scans the streams after cursor, in the order of their ids, for those
// that keep more at a log time than their retention, or the default for the
// bounds that they leave open. A record is too old when less than the log time
// minus Keep.Age, and one too many when those after it have Keep.Bytes without
// it. It looks at about maxScan streams and returns where to go on: zero after
// the last. Start with cursor zero.
//
// A stream is locked while its extents are walked: those that are overdue, and
// with a bound in bytes those that are kept.
func (v View) Overdue(cursor stream.ID, maxScan int, defaults stream.Retention, now stream.Time) (list []Overdue, next stream.ID) {
	last := v.s.public.lastDense.Load()
	scanned := 0
	for dense := cursor.Dense() + 1; dense <= last; dense++ {
		if scanned >= maxScan {
			return list, stream.MakeID(0, dense-1)
		}
		scanned++
		if v.s.streams.at(dense/pageRows) == nil {
			dense |= pageRows - 1 // none of its streams is there
			continue
		}
		if o, ok := v.overdue(stream.MakeID(0, dense), defaults, now); ok {
			list = append(list, o)
		}
	}
	return list, 0
}

// overdue looks at one stream.
func (v View) overdue(id stream.ID, defaults stream.Retention, now stream.Time) (o Overdue, ok bool) {
	p, lock := v.lock(id)
	if lock == nil {
		return o, false
	}
	defer lock.RUnlock()
	r, extents := p.row(), *p.extents()
	if len(extents) == 0 {
		return o, false
	}
	o = Overdue{ID: id, Keep: defaults, To: r.start}
	if r.retained() {
		o.Keep = p.side().retention.Or(defaults)
	}
	from, oldest := 0, now-stream.Time(o.Keep.Age)*1000
	if o.Keep.Age > 0 {
		from = v.aged(extents, oldest)
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
		return o, true
	}
	if o.Keep.Age > 0 {
		in, _ := v.Segment(extents[from].Segment)
		o.Aged = in.Oldest < oldest
	}
	o.To = extents[from].First
	return o, o.To > r.start || o.Aged || o.Excess > 0
}

// aged is how many extents have nothing but records from before a time. Times
// never fall from record to record, so one that has ends all before it, which
// may share their segments with newer records of other streams.
func (v View) aged(extents []Extent, oldest stream.Time) (n int) {
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
func within(extents []Extent, bytes uint64) (at int, held uint64) {
	for at = len(extents); at > 0 && held < bytes; {
		at--
		if at == 0 {
			held += uint64(extents[at].Bytes)
		} else {
			held += extents[at].atLeast()
		}
	}
	return at, held
}
