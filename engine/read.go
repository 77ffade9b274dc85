package engine

import (
	"context"
	"sort"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// Bounds of one read.
const (
	maxReadBytes = 16 << 20
	extentBatch  = 64 // extents copied from the view at a time
)

// Read returns records that exist, from a position on.
func (e *Engine) Read(ctx context.Context, name stream.Name, r stream.ReadRequest) (*stream.Chunk, error) {
	stale, err := e.observe(ctx)
	if err != nil {
		return nil, err
	}
	st, err := e.lookup(ctx, name, r.ID, stale)
	if err != nil {
		return nil, err
	}
	if err := e.touch(ctx, &st); err != nil {
		return nil, err
	}
	from, err := e.position(ctx, &st, r.From, stale)
	if err != nil {
		return nil, err
	}
	chunk := &stream.Chunk{Info: info(&st, stale), First: from, Next: from}
	if err := e.collect(ctx, &st, chunk, r); err != nil {
		return nil, err
	}
	e.readAhead(&st, chunk)
	chunk.UpToDate = chunk.Next == st.Tail
	if stale > 0 && chunk.UpToDate {
		if len(chunk.Runs) == 0 {
			return nil, stream.Errorf(stream.CodeUnavailable, "the log is out of reach, so whether %q has more cannot be told; try again", name)
		}
		chunk.UpToDate = false
	}
	return chunk, nil
}

// position resolves where a read begins. An offset past the tail of a view
// that was not asked to be new is looked up again in one that is.
func (e *Engine) position(ctx context.Context, st *statemachine.Stream, p stream.Position, stale time.Duration) (stream.Offset, error) {
	switch p.Kind {
	case stream.FromStart:
		return st.Start, nil
	case stream.FromTail:
		if p.Back > uint64(st.Tail-st.Start) {
			return st.Start, nil
		}
		return st.Tail - stream.Offset(p.Back), nil
	case stream.FromTime:
		return e.firstAt(ctx, st, p.Time)
	case stream.FromOffset:
	}
	if p.Offset > st.Tail && e.cfg.LocalReads {
		fresh, err := e.settled(ctx, st.Name)
		if err != nil {
			return 0, err
		}
		if fresh.ID != st.ID {
			return 0, notFound(st.Name)
		}
		*st = fresh
	}
	switch {
	case p.Offset < st.Start:
		err := stream.Errorf(stream.CodeTrimmed, "record %d of %q was trimmed away; the earliest is %d", p.Offset, st.Name, st.Start)
		err.Start = st.Start
		return 0, err
	case p.Offset > st.Tail:
		err := stream.Errorf(stream.CodeBeyondTail, "record %d of %q lies beyond the tail %d; read from the tail or below", p.Offset, st.Name, st.Tail)
		err.Tail = st.Tail
		return 0, refuse(stale, err)
	}
	return p.Offset, nil
}

// collect fills the chunk with runs from its Next on, within the request's
// bounds and at least one record if one exists. Compaction may move records while
// they are read: an object that is gone is looked up again.
func (e *Engine) collect(ctx context.Context, st *statemachine.Stream, chunk *stream.Chunk, r stream.ReadRequest) error {
	budget := limits{bytes: min(max(r.MaxBytes, 1), maxReadBytes), records: r.MaxRecords}
	if budget.records <= 0 {
		budget.records = int(^uint(0) >> 1)
	}
	view := e.replica.View()
	var gone statemachine.Located // the extent whose object was not there
	for chunk.Next < st.Tail && !budget.spent {
		extents := view.Extents(st.ID, chunk.Next, extentBatch)
		if len(extents) == 0 || extents[0].First > chunk.Next {
			return e.movedAway(st, chunk.Next)
		}
		missing, err := e.collectExtents(ctx, st, extents, chunk, &budget)
		switch {
		case err == nil:
		case !blobwal.Missing(err) || sameSegment(missing.In, gone.In):
			return err
		default:
			gone = missing
		}
	}
	return nil
}

// sameSegment tells whether both are one object.
func sameSegment(a, b statemachine.Segment) bool {
	return a.Node == b.Node && a.Epoch == b.Epoch && a.Sequence == b.Sequence
}

// collectExtents adds the runs of extents, and has those that it will come to
// fetched meanwhile. With an error comes the extent that it is about.
func (e *Engine) collectExtents(ctx context.Context, st *statemachine.Stream, extents []statemachine.Located, chunk *stream.Chunk, budget *limits) (statemachine.Located, error) {
	prepared, bytes := 0, budget.bytes
	for i := range extents {
		if chunk.Next >= st.Tail || budget.spent {
			break
		}
		for ; prepared < min(i+aheadExtents, len(extents)) && bytes > 0; prepared++ {
			_, n, ok := e.prepare(st, &extents[prepared], chunk.Next, bytes)
			if !ok {
				break
			}
			bytes -= n
		}
		if err := e.collectExtent(ctx, st, &extents[i], chunk, budget); err != nil {
			return extents[i], err
		}
	}
	return statemachine.Located{}, nil
}

// movedAway says why a stream no longer has a record that it had a moment ago.
func (e *Engine) movedAway(st *statemachine.Stream, at stream.Offset) error {
	fresh, ok := e.replica.View().Stream(st.ID)
	if !ok {
		return notFound(st.Name)
	}
	if fresh.Start > at {
		err := stream.Errorf(stream.CodeTrimmed, "record %d of %q was trimmed away; the earliest is %d", at, st.Name, fresh.Start)
		err.Start = fresh.Start
		return err
	}
	return stream.Errorf(stream.CodeInternal, "no extent holds record %d of %q (%v)", at, st.Name, st.ID)
}

// collectExtent adds the runs of one extent from chunk.Next on.
func (e *Engine) collectExtent(ctx context.Context, st *statemachine.Stream, x *statemachine.Located, chunk *stream.Chunk, budget *limits) error {
	end := min(x.End(), st.Tail)
	var block *blobwal.Block
	for chunk.Next < end && !budget.spent {
		ordinal := x.Ordinal + uint32(chunk.Next-x.First)
		if block == nil || !block.Has(ordinal) { // a block may take several runs
			var err error
			if block, err = e.block(ctx, st, x, chunk.Next, budget.bytes); err != nil {
				return err
			}
		}
		run := block.Run(ordinal, int(end-chunk.Next))
		if !block.Packed() {
			run.First, run.Time = chunk.Next, x.In.Time
		}
		if x.Cut() {
			run = run.Cut(x.Bytes)
		}
		run = budget.cut(run)
		if run.Len() > 0 {
			chunk.Runs = append(chunk.Runs, run)
			chunk.Next += stream.Offset(run.Len())
		}
	}
	return nil
}

// block is the block that holds a stream's record at an offset of an extent, for a
// reader that goes on for about so many bytes.
func (e *Engine) block(ctx context.Context, st *statemachine.Stream, x *statemachine.Located, at stream.Offset, bytes int) (*blobwal.Block, error) {
	in := segmentOf(x)
	ordinal, n, _ := about(x, at, min(x.End(), st.Tail), bytes)
	block, err := e.cache.Block(ctx, in, ordinal, ordinal+n)
	if err != nil {
		return nil, err
	}
	if !mayHold(block, st, at, ordinal) {
		return nil, stream.Errorf(stream.CodeInternal, "object %s: its record %d belongs to stream %d, where %q (%d) has its record %d",
			blobwal.Key(e.cfg.Writer.Identity.Cluster, in.ID), ordinal, block.Info.Stream, st.Name, st.ID, at)
	}
	return block, nil
}

// mayHold tells whether a block can hold a stream's record: it is the stream's
// own, or the record is one that a fork has of its ancestors. What forks share is
// packed once, under the oldest of them.
func mayHold(block *blobwal.Block, st *statemachine.Stream, at stream.Offset, ordinal uint32) bool {
	if block.Packed() && block.Base()+stream.Offset(ordinal-block.Info.First) != at {
		return false
	}
	owner := block.Info.Stream
	switch {
	case owner == st.ID || (owner == 0 && block.Name == st.Name):
		return true
	case st.Fork != nil && at < st.Fork.End:
		return owner < st.ID // which ancestor it was is not kept
	default:
		return false
	}
}

// limits is what a read may still return.
type limits struct {
	bytes   int
	records int
	any     bool // a record was taken
	spent   bool
}

// cut takes as much of a run as the limits allow.
func (l *limits) cut(run stream.Run) stream.Run {
	n := run.Len()
	fits := sort.Search(n, func(i int) bool { return int(run.Ends[i]-run.Base) > l.bytes })
	fits = fitHeaders(run, fits, l.bytes)
	if fits == 0 && !l.any {
		fits = 1 // one record is returned whatever its size
	}
	fits = min(fits, l.records)
	l.spent = fits < n || fits == l.records
	if fits == 0 {
		return stream.Run{}
	}
	out := run.Slice(0, fits)
	l.any = true
	l.bytes -= len(out.Bodies) + headerBytes(out, fits)
	l.records -= fits
	l.spent = l.spent || l.bytes <= 0
	return out
}

// fitHeaders is how many of the first n records fit into a number of bytes with
// their headers: otherwise large headers of small records would make a read of
// any size.
func fitHeaders(run stream.Run, n, limit int) int {
	if run.Headers == nil {
		return n
	}
	held := 0
	for i := range n {
		held += sizeOf(run.Headers[i])
		if held+int(run.Ends[i]-run.Base) > limit {
			return i
		}
	}
	return n
}

// headerBytes is the size of the headers of the first n records.
func headerBytes(run stream.Run, n int) int {
	held := 0
	for i := range min(n, len(run.Headers)) {
		held += sizeOf(run.Headers[i])
	}
	return held
}

func sizeOf(headers []stream.Header) int {
	held := 0
	for _, h := range headers {
		held += len(h.Name) + len(h.Value)
	}
	return held
}
