package statemachine

import (
	"github.com/picomq/picomq/stream"
)

// Overdue is a stream that keeps more than its retention asks for.
type Overdue struct {
	ID   stream.ID
	Keep stream.Retention // in force: its own, and defaults for what it leaves open
	// To is as far as whole extents may go. What more there is to trim lies in the
	// extent that begins there:
	To     stream.Offset
	Aged   bool   // some of its records may be older than Keep.Age; the segment does not say which
	Excess uint64 // how far it reaches beyond Keep.Bytes, in bytes
}

// Overdue scans the streams after cursor, in the order of their ids, for those
// that keep more at a log time than their retention, or the default for the
// bounds that they leave open. It looks at about maxScan streams and returns where
// to go on: zero after the last. Start with cursor zero.
func (v View) Overdue(cursor stream.ID, maxScan int, defaults stream.Retention, now stream.Time) (list []Overdue, next stream.ID) {
	last := v.s.public.lastDense.Load()
	dense := cursor.Dense() + 1
	for scanned := 0; dense <= last; {
		if scanned >= maxScan {
			return list, stream.MakeID(0, dense-1)
		}
		end := min(last, dense|(pageRows-1))
		v.overduePage(dense, end, defaults, now, &list)
		scanned += int(end - dense + 1)
		dense = end + 1
	}
	return list, 0
}

func (v View) overduePage(from, to uint64, defaults stream.Retention, now stream.Time, list *[]Overdue) {
	p, lock := v.lock(stream.MakeID(0, from))
	if lock == nil {
		return
	}
	defer lock.RUnlock()
	for dense := from; dense <= to; dense++ {
		p.at = int(dense % pageRows)
		keep := defaults
		if r := p.row(); !r.live() || r.start == r.tail {
			continue
		} else if r.retained() {
			keep = p.side().retention.Or(defaults)
		}
		if o, ok := v.overdue(p, keep, now); ok {
			o.ID = stream.MakeID(0, dense)
			*list = append(*list, o)
		}
	}
}

// overdue looks at one stream. Its page is locked.
func (v View) overdue(p place, keep stream.Retention, now stream.Time) (o Overdue, ok bool) {
	extents := *p.extents()
	o = Overdue{Keep: keep, To: p.row().start}
	if keep.Age > 0 {
		at, oldest := 0, now-stream.Time(keep.Age)*1000
		for ; at < len(extents); at++ {
			if in, _ := v.Segment(extents[at].Segment); in.Newest >= oldest {
				o.Aged = in.Oldest < oldest
				break
			}
			o.To = extents[at].End()
		}
	}
	if keep.Bytes > 0 {
		at, held := len(extents), uint64(0)
		for at > 0 && held < keep.Bytes {
			at--
			held += uint64(extents[at].Bytes)
		}
		if held > keep.Bytes && extents[at].First >= o.To {
			o.Excess = held - keep.Bytes
		}
		if at < len(extents) && extents[at].First > o.To {
			o.To, o.Aged = extents[at].First, false
		}
	}
	return o, o.To > p.row().start || o.Aged || o.Excess > 0
}
