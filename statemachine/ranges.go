package statemachine

import "slices"

// maxRanges bounds the ranges that a set keeps. Segments of one epoch commit
// within some hundreds of each other, so a healthy node has a handful.
const maxRanges = 4096

// span is the sequences from up to and including to.
type span struct {
	from, to uint64
}

// sequences is a set of segment sequences of one epoch, as ascending spans that
// do not touch: exact, and small because sequences are used nearly in order.
// Beyond maxRanges spans the lowest gap is closed. Its sequences then count as
// in the set, which refuses commits and never accepts one twice.
type sequences struct {
	spans []span
}

// find is the first span that ends at or after n, and whether it holds n.
func (q *sequences) find(n uint64) (at int, held bool) {
	at, _ = slices.BinarySearchFunc(q.spans, n, func(s span, n uint64) int {
		if s.to < n {
			return -1
		}
		return 1
	})
	return at, at < len(q.spans) && q.spans[at].from <= n
}

func (q *sequences) has(n uint64) bool {
	_, held := q.find(n)
	return held
}

// add puts n into the set.
func (q *sequences) add(n uint64) {
	at, held := q.find(n)
	if held {
		return
	}
	joinsLeft := at > 0 && q.spans[at-1].to == n-1 // n > 0: a span lies below it
	joinsRight := at < len(q.spans) && q.spans[at].from-1 == n
	switch {
	case joinsLeft && joinsRight:
		q.spans[at-1].to = q.spans[at].to
		q.spans = slices.Delete(q.spans, at, at+1)
	case joinsLeft:
		q.spans[at-1].to = n
	case joinsRight:
		q.spans[at].from = n
	default:
		q.spans = slices.Insert(q.spans, at, span{n, n})
	}
	if len(q.spans) > maxRanges {
		q.spans[1].from = q.spans[0].from
		q.spans = slices.Delete(q.spans, 0, 1)
	}
}
