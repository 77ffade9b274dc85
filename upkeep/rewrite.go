package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

const (
	// holdersAtOnce is about how many extents are looked up at a time.
	holdersAtOnce = 1 << 13
	// packingSlack is what a packed segment may take beside the bytes that its
	// records took before: a longer table of times, more blocks.
	packingSlack = 64 << 10
	// One Swap has at most so many runs and pieces, for Apply takes a few
	// microseconds a run, and appends wait for it: together less than 5 ms.
	swapRuns   = 1 << 10
	swapPieces = 1 << 13
)

// lastStream is above every stream of the log.
const lastStream = stream.ID(1<<48 - 1)

// rewrite is one compaction under way.
type rewrite struct {
	*Upkeep
	plan    plan
	sources map[uint32]*source // by slot
	outputs []*output
	copies  copies

	read    int64
	sealed  uint64
	written uint64
	moved   uint64
}

// output is a packed segment, at first under construction.
type output struct {
	id          blobwal.SegmentID
	packer      *blobwal.Packer // nil once it is stored
	slot        uint32          // once it is stored
	first, last stream.ID
	runs        []commands.Run // that point into it and are not proposed yet
}

func newRewrite(u *Upkeep, p plan) *rewrite {
	r := &rewrite{Upkeep: u, plan: p, sources: make(map[uint32]*source, len(p.inputs))}
	for _, g := range p.inputs {
		r.sources[g.Slot] = &source{Upkeep: u, in: g, id: u.id(&g.Segment), read: &r.read}
	}
	return r
}

// run copies what streams have in the inputs, stream by stream in the order of
// their ids, and lets them point to the copies.
func (r *rewrite) run(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			r.abandon()
		}
	}()
	if err := r.openAll(ctx); err != nil {
		return err
	}
	view := r.cfg.Replica.View()
	in := func(slot uint32) bool { return r.holds(view, slot) }
	for after := stream.ID(0); ; {
		list, next := view.Holders(after, lastStream, in, holdersAtOnce)
		for i := range list {
			if err := r.move(ctx, &list[i]); err != nil {
				return err
			}
		}
		if after = next; after == 0 {
			return r.seal(ctx)
		}
	}
}

// openAll opens the inputs. It finds all that are spoiled, but ends at an error
// of the bucket.
func (r *rewrite) openAll(ctx context.Context) (first error) {
	for _, s := range r.sources {
		if s.failed = s.open(ctx); s.failed == nil {
			continue
		}
		first = cmp.Or(first, s.failed)
		if fault := (*blobwal.ObjectError)(nil); !errors.As(s.failed, &fault) {
			return s.failed
		}
	}
	return first
}

// holds tells whether a slot that an extent names, whose stream is locked, still
// has the input that was there when all this was planned. By now the input may
// have been collected and the slot have another segment, even of the same stream:
// its records must not be taken for those of the input.
func (r *rewrite) holds(view statemachine.View, slot uint32) bool {
	s := r.sources[slot]
	if s == nil {
		return false
	}
	now, ok := view.Segment(slot)
	return ok && same(&now, &s.in.Segment)
}

// abandon gives up the sequence of what is not stored.
func (r *rewrite) abandon() {
	if o := r.open(); o != nil {
		r.cfg.Segments.GiveUp(o.id)
	}
}

// open is the output under construction, or nil.
func (r *rewrite) open() *output {
	if n := len(r.outputs); n > 0 && r.outputs[n-1].packer != nil {
		return r.outputs[n-1]
	}
	return nil
}

// move copies consecutive extents of one stream, and notes the runs that they
// become.
func (r *rewrite) move(ctx context.Context, h *statemachine.Held) error {
	var run *building
	for i := range h.Extents {
		e := &h.Extents[i]
		c, err := r.copyOf(ctx, h, e)
		if err != nil {
			return err
		}
		if run != nil && !run.takes(c) {
			run.end()
			run = nil
		}
		if run == nil {
			run = &building{in: c.in, run: commands.Run{ID: h.ID, First: e.First, Ordinal: c.ordinal}}
		}
		run.add(e, c)
	}
	if run != nil {
		run.end()
	}
	return nil
}

// building is a run that grows piece by piece.
type building struct {
	in    *output
	run   commands.Run
	next  uint32 // the ordinal after its last record
	bytes uint64
}

// takes tells whether the copy lies right behind the run.
func (b *building) takes(c copied) bool {
	return c.in == b.in && c.ordinal == b.next && len(b.run.Pieces) < swapPieces && b.bytes+uint64(c.bytes) <= math.MaxUint32
}

func (b *building) add(e *statemachine.Extent, c copied) {
	b.run.Pieces = append(b.run.Pieces, commands.Piece{Slot: e.Segment, Ordinal: e.Ordinal, Count: e.Count(), Cut: e.Cut()})
	b.next = c.ordinal + e.Count()
	b.bytes += uint64(c.bytes)
}

func (b *building) end() {
	b.run.Bytes = uint32(b.bytes)
	b.in.runs = append(b.in.runs, b.run)
}

// copyOf is where an extent's records are, copied now unless another stream that
// shares them came first.
func (r *rewrite) copyOf(ctx context.Context, h *statemachine.Held, e *statemachine.Extent) (copied, error) {
	if h.Fork {
		if c, ok := r.copies.find(e); ok {
			return c, nil
		}
	}
	c, err := r.copy(ctx, h, e, false)
	if errors.Is(err, blobwal.ErrPackerFull) {
		c, err = r.copy(ctx, h, e, true) // into one with room enough
	}
	if err == nil && h.Fork {
		r.copies.add(e, c)
	}
	return c, err
}

// copy copies an extent's records into one output, a new one if it must be or if
// they surely would not fit.
func (r *rewrite) copy(ctx context.Context, h *statemachine.Held, e *statemachine.Extent, anew bool) (copied, error) {
	o := r.open()
	if o != nil && (anew || !o.packer.Fits(1, int(e.Count()), int(e.Bytes))) {
		if err := r.seal(ctx); err != nil {
			return copied{}, err
		}
		o = nil
	}
	if o == nil {
		var err error
		if o, err = r.begin(e, anew); err != nil {
			return copied{}, err
		}
	}
	s, before := r.sources[e.Segment], o.packer.Bytes()
	c := copied{in: o, ordinal: o.packer.Records()}
	for done := uint32(0); done < e.Count(); {
		run, err := s.run(ctx, h, e.First+stream.Offset(done), e.Ordinal+done, e.Count()-done)
		if err != nil {
			s.failed = err
			return c, err
		}
		if e.Cut() {
			run = run.Cut(e.Bytes)
		}
		if _, err := o.packer.Add(h.ID, run); err != nil {
			return c, err
		}
		done += uint32(run.Len())
	}
	c.bytes = uint32(o.packer.Bytes() - before)
	o.first, o.last = min(o.first, h.ID), max(o.last, h.ID)
	return c, nil
}

// begin begins an output that holds an extent at least. Large says that it takes
// more than the state believed, which for a part of another is an estimate.
func (r *rewrite) begin(e *statemachine.Extent, large bool) (*output, error) {
	bytes := int(e.Bytes)
	if large {
		bytes = 2*r.sources[e.Segment].span(e) + 16*int(e.Count())
	}
	size := max(r.cfg.PackedBytes, bytes+bytes/8+packingSlack)
	identity := r.cfg.Segments.Identity()
	o := &output{id: identity.Segment(r.cfg.Segments.Reserve()), first: math.MaxUint64}
	var err error
	if o.packer, err = blobwal.NewPacker(identity, o.id.Sequence, min(size, blobwal.MaxObjectBytes)); err != nil {
		r.cfg.Segments.GiveUp(o.id)
		return nil, err
	}
	r.outputs = append(r.outputs, o)
	return o, nil
}

// seal stores the output under construction, makes it known, and lets streams
// point to it.
func (r *rewrite) seal(ctx context.Context) error {
	o := r.open()
	if o == nil {
		return nil
	}
	packed := o.packer.Seal()
	if packed == nil { // not even the first record fits it
		r.abandon()
		r.outputs = r.outputs[:len(r.outputs)-1]
		return nil
	}
	if err := r.wait(ctx, int64(len(packed.Object))); err != nil {
		return err
	}
	if err := r.cfg.Segments.Store(ctx, packed.ID, packed.Object); err != nil {
		return fmt.Errorf("store packed segment %v: %w", packed.ID, err)
	}
	d, err := r.cfg.Replica.ProposeAs(ctx, commands.Epoch(o.id.Epoch), &commands.Pack{
		Sequence: o.id.Sequence, Size: uint64(len(packed.Object)), Level: r.plan.level,
		Oldest: packed.Oldest, Newest: packed.Newest, First: o.first, Last: o.last,
	})
	if err != nil {
		return err
	}
	if v := d.Results[0].Verdict; v != statemachine.Accepted {
		return fmt.Errorf("the log refused packed segment %v: %v", packed.ID, v)
	}
	o.packer, o.slot = nil, d.Results[0].Segment
	r.sealed++
	r.written += uint64(len(packed.Object))
	// What forks share may lie in outputs that were stored before.
	for _, o := range r.outputs {
		if err := r.swap(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// swap proposes an output's runs.
func (r *rewrite) swap(ctx context.Context, o *output) error {
	for len(o.runs) > 0 {
		n, pieces := 0, 0
		for n < min(len(o.runs), swapRuns) && pieces+len(o.runs[n].Pieces) <= swapPieces {
			pieces += len(o.runs[n].Pieces)
			n++
		}
		d, err := r.cfg.Replica.ProposeAs(ctx, commands.Epoch(o.id.Epoch), commands.NewSwap(o.slot, o.id.Sequence, o.runs[:n]))
		if err != nil {
			return err
		}
		switch v := d.Results[0].Verdict; v {
		case statemachine.Accepted:
			r.moved += uint64(pieces)
		case statemachine.NotDue: // all of these streams went meanwhile
		default:
			return fmt.Errorf("the log refused to let streams point to packed segment %v: %v", o.id, v)
		}
		o.runs = o.runs[n:]
	}
	o.runs = nil // and their memory
	return nil
}
