package fsck

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// atOnce bounds what is in memory at a time. Tests make it small.
var atOnce = struct {
	extents  int // that are looked at together, with their segments; about
	segments int // of those, at most
	held     int // extents that are copied from the state at a time; about
	streams  int // that are copied from the state at a time
	ofStream int // extents of one stream, likewise
	deletes  int // orphans that are deleted together
}{extents: 1 << 20, segments: 1 << 16, held: 1 << 14, streams: 1000, ofStream: 4096, deletes: 1000}

// lastStream is above every stream of a log.
const lastStream = stream.ID(1<<48 - 1)

// reference is an extent as its segment sees it.
type reference struct {
	id      stream.ID
	first   stream.Offset
	ordinal uint32
	count   uint32
	bytes   uint32
	cut     bool
}

func (r *reference) end() uint32 { return r.ordinal + r.count }

// offset is the offset of the record with an ordinal.
func (r *reference) offset(ordinal uint32) stream.Offset {
	return r.first + stream.Offset(ordinal-r.ordinal)
}

// batch is consecutive segments and what refers to them.
type batch struct {
	segments []statemachine.Slotted
	extents  int
	refs     map[uint32][]reference // by slot
}

// checkSegments reads every segment that streams refer to.
func (c *checker) checkSegments(ctx context.Context) error {
	var b batch
	for s := range segmentsOf(c.view) {
		if s.Dead() {
			c.checkDead(s)
			continue
		}
		b.segments = append(b.segments, *s)
		if b.extents += int(s.Extents); b.extents >= atOnce.extents || len(b.segments) >= atOnce.segments {
			if err := c.checkBatch(ctx, &b); err != nil {
				return err
			}
			b = batch{}
		}
	}
	return c.checkBatch(ctx, &b)
}

// checkDead is about a segment that nothing refers to.
func (c *checker) checkDead(s *statemachine.Slotted) {
	switch listed := c.known.listed[s.Slot]; {
	case listed == 0 && s.Doomed == 0 && !c.shared: // else it may have been collected since
		c.warn(Missing, c.key(&s.Segment), "nothing refers to it: none is needed", "the log has a segment of %d bytes there", s.Size)
	case listed != 0:
		c.noteOf(Waiting, c.key(&s.Segment), listed-1)
	}
}

// checkBatch gathers what refers to some segments, and reads them.
func (c *checker) checkBatch(ctx context.Context, b *batch) error {
	if len(b.segments) == 0 {
		return nil
	}
	c.gather(b)
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(c.Parallel)
	live := c.view.Counts().Segments - c.view.Counts().Dead
	for i := range b.segments {
		if working.Err() != nil {
			break
		}
		s := &b.segments[i]
		group.Go(func() error {
			o := &object{checker: c, in: s, key: c.key(&s.Segment), refs: b.refs[s.Slot]}
			if err := o.check(working); err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.report.Segments++
			c.report.Bytes += o.in.Size
			c.Progress(Progress{Stage: "segments", Done: c.report.Segments, Total: live})
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// gather finds the extents in the segments of a batch.
func (c *checker) gather(b *batch) {
	b.refs = make(map[uint32][]reference, len(b.segments))
	for i := range b.segments {
		b.refs[b.segments[i].Slot] = make([]reference, 0, min(int(b.segments[i].Extents), atOnce.extents))
	}
	from, to := b.segments[0].Slot, b.segments[len(b.segments)-1].Slot
	in := func(slot uint32) bool { return from <= slot && slot <= to }
	for after := stream.ID(0); ; {
		held, next := c.view.Holders(after, lastStream, in, atOnce.held)
		for i := range held {
			for _, e := range held[i].Extents {
				b.refs[e.Segment] = append(b.refs[e.Segment], reference{held[i].ID, e.First, e.Ordinal, e.Count(), e.Bytes, e.Cut()})
			}
		}
		if after = next; after == 0 {
			break
		}
	}
	for _, refs := range b.refs {
		slices.SortFunc(refs, func(a, b reference) int {
			return cmp.Or(cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(a.id, b.id))
		})
	}
}

// checkReferences compares the references of a segment with each other and with
// what the log counts of them.
func (o *object) checkReferences() {
	bytes := uint64(0)
	var widest *reference // of those so far, the one that goes on furthest
	for i := range o.refs {
		r := &o.refs[i]
		bytes += uint64(r.bytes)
		if widest != nil && r.ordinal < widest.end() {
			at := r.offset(r.ordinal)
			if widest.offset(r.ordinal) != at || !o.mayShare(widest.id, r.id, at) {
				o.problem(Shared, "its record %d is record %d of %s and record %d of %s, which may not share it",
					r.ordinal, widest.offset(r.ordinal), o.nameOf(widest.id), at, o.nameOf(r.id))
			}
		}
		if widest == nil || r.end() > widest.end() {
			widest = r
		}
	}
	if uint64(len(o.refs)) != uint64(o.in.Extents) || bytes != o.in.Referenced {
		o.problem(References, "streams have %d bytes of it in %d extents, and the log counts %d in %d",
			bytes, len(o.refs), o.in.Referenced, o.in.Extents)
	}
}
