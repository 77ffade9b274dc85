package upkeep

import (
	"context"
	"sort"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// refineExtents is how many extents of a stream are looked into at most.
const refineExtents = 64

// question is what blocks are asked about a stream.
type question struct {
	extents []statemachine.Located // the one at o.To and those after it
	excess  uint64                 // that the first has; 0: this is not asked
	mixed   int                    // how many at the front may have records that are too old
	oldest  stream.Time            // the time from which on records stay
}

// ask is what blocks can tell about a stream that the last look into them did
// not, and that is worth it; false when there is nothing.
func (j *retain) ask(view statemachine.View, o *statemachine.Overdue, now stream.Time) (q question, ok bool) {
	last := j.looks[o.ID]
	known := last.start == o.To
	if o.Excess > blobwal.MaxBlockBytes && !(known && o.Excess < last.excess+blobwal.MaxBlockBytes) {
		q.excess = o.Excess
	}
	aged := o.Aged && !(known && now <= last.until)
	if q.excess == 0 && !aged {
		return q, false
	}
	q.extents = view.Extents(o.ID, o.To, refineExtents)
	if len(q.extents) == 0 || q.extents[0].First != o.To {
		return q, false // it changed meanwhile
	}
	if aged {
		q.oldest = now - stream.Time(o.Keep.Age)*1000
		q.mixed = mixed(q.extents, q.oldest)
	}
	return q, q.excess > 0 || q.mixed > 0
}

// mixed is how many extents at the front may have records older than oldest, if
// together they have more than a block.
func mixed(extents []statemachine.Located, oldest stream.Time) (n int) {
	bytes := uint64(0)
	for ; n < len(extents) && extents[n].In.Oldest < oldest; n++ {
		bytes += uint64(extents[n].Bytes)
	}
	if bytes <= blobwal.MaxBlockBytes {
		return 0
	}
	return n
}

// refine is how far a stream may be trimmed according to the blocks. With an
// error it is how far that was found out.
func (j *retain) refine(ctx context.Context, o *statemachine.Overdue, q *question) (to stream.Offset, err error) {
	to = o.To
	seen := look{}
	if q.excess > 0 {
		if to, err = j.tooMany(ctx, &q.extents[0], q.excess); err != nil {
			return o.To, err
		}
	}
	if q.mixed > 0 {
		aged, next, err := j.tooOld(ctx, q.extents[:q.mixed], q.oldest)
		if err != nil {
			return max(to, aged), err
		}
		to, seen.until = max(to, aged), next+stream.Time(o.Keep.Age)*1000
	}
	if seen.start = to; to == o.To {
		seen.excess = q.excess
	}
	j.remember(o.ID, seen)
	return to, nil
}

// part is an extent with the index of its segment.
type part struct {
	*statemachine.Located
	segment blockcache.Segment
	index   *blobwal.Index
	lo, hi  uint32 // numbers of its first and its last block
}

func (j *retain) open(ctx context.Context, e *statemachine.Located) (p part, err error) {
	p = part{Located: e, segment: blockcache.Segment{ID: j.id(&e.In), Size: e.In.Size}}
	if p.index, err = j.cfg.Cache.Index(ctx, p.segment); err != nil {
		return p, err
	}
	// The index was checked, and the log names no record beyond it; if it did, the
	// blocks that there are would be looked at.
	first, _ := p.index.Find(min(e.Ordinal, p.index.Records-1))
	last, _ := p.index.Find(min(e.Ordinal+e.Count(), p.index.Records) - 1)
	p.lo, p.hi = first.Number, last.Number
	return p, nil
}

// records are the ordinals of the extent's records in a block, from and up to
// but not including to.
func (p *part) records(number uint32) (from, to uint32) {
	b := &p.index.Blocks[number]
	return max(b.First, p.Ordinal), min(b.First+b.Count, p.Ordinal+p.Count())
}

// offset is the stream's offset of a record.
func (p *part) offset(ordinal uint32) stream.Offset {
	return p.First + stream.Offset(ordinal-p.Ordinal)
}

// block reads a block of the extent.
func (j *retain) block(ctx context.Context, p *part, number uint32) (*blobwal.Block, error) {
	first := p.index.Blocks[number].First
	return j.cfg.Cache.Block(ctx, p.segment, first, first+1)
}

// tooMany is the offset from which on an extent has all but at most excess of
// its bytes: the start of a block, so that what is kept is no less.
func (j *retain) tooMany(ctx context.Context, e *statemachine.Located, excess uint64) (stream.Offset, error) {
	p, err := j.open(ctx, e)
	if err != nil {
		return e.First, err
	}
	needed := uint64(e.Bytes) - min(excess, uint64(e.Bytes))
	kept := uint64(0)
	for number := p.hi; number > p.lo; number-- {
		bytes, err := j.bytes(ctx, &p, number)
		if err != nil {
			return e.First, err
		}
		if kept += bytes; kept >= needed {
			from, _ := p.records(number)
			return p.offset(from), nil
		}
	}
	return e.First, nil
}

// bytes is how many bytes the extent's records take in a block. Only the last
// block of an extent can have records of others, and only that is read.
func (j *retain) bytes(ctx context.Context, p *part, number uint32) (n uint64, err error) {
	b := &p.index.Blocks[number]
	from, to := p.records(number)
	if to-from == b.Count {
		return uint64(b.Length), nil
	}
	block, err := j.block(ctx, p, number)
	if err != nil {
		return 0, err
	}
	for from < to {
		run := block.Run(from, int(to-from))
		n += uint64(len(run.Bodies)) + 4*uint64(run.Len()) // as blocks note where each ends
		from += uint32(run.Len())
	}
	return n, nil
}

// tooOld is the offset of the first record that is not older than oldest, or
// where the extents end; and the time before which nothing further is to be
// trimmed up to a whole block. Times never fall within a stream.
func (j *retain) tooOld(ctx context.Context, extents []statemachine.Located, oldest stream.Time) (to stream.Offset, next stream.Time, err error) {
	to = extents[0].First
	for i := range extents {
		e := &extents[i]
		if e.In.Newest < oldest {
			to = e.End()
			continue
		}
		p, err := j.open(ctx, e)
		if err != nil {
			return to, 0, err
		}
		ordinal, next, err := j.young(ctx, &p, oldest)
		if err != nil {
			return to, 0, err
		}
		if to = p.offset(ordinal); to < e.End() {
			return to, next, nil
		}
	}
	return to, oldest, nil
}

// young is the ordinal of the extent's first record that is not older than
// oldest, and the time of the last record in its block. It reads one block where
// little has become too old since the last time, and some twenty at most.
func (j *retain) young(ctx context.Context, p *part, oldest stream.Time) (ordinal uint32, last stream.Time, err error) {
	var found *blobwal.Block // the first block known to end young
	lo, hi := p.lo, p.hi+1   // those before lo end old, and hi is found, or the end
	for width := uint32(1); lo < hi; width *= 2 {
		number := min(lo+width-1, lo+(hi-lo)/2)
		block, err := j.block(ctx, p, number)
		if err != nil {
			return 0, 0, err
		}
		if _, to := p.records(number); block.TimeOf(to-1) < oldest {
			lo = number + 1
		} else {
			hi, found = number, block
		}
	}
	if found == nil {
		return p.Ordinal + p.Count(), oldest, nil
	}
	from, to := p.records(hi)
	older := sort.Search(int(to-from), func(i int) bool { return found.TimeOf(from+uint32(i)) >= oldest })
	return from + uint32(older), found.TimeOf(to - 1), nil
}
