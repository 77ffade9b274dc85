package fsck

import (
	"slices"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// reach finds the references with records in a block. Blocks come in order.
func (o *object) reach(info *blobwal.BlockInfo) {
	o.active = slices.DeleteFunc(o.active, func(r *reference) bool { return r.end() <= info.First })
	for ; o.next < len(o.refs) && o.refs[o.next].ordinal < info.First+info.Count; o.next++ {
		if r := &o.refs[o.next]; r.end() > info.First {
			o.active = append(o.active, r)
		}
	}
}

// examine looks at the next block, or at why it cannot be read.
func (o *object) examine(info blobwal.BlockInfo, block *blobwal.Block, err error) {
	o.reach(&info)
	if err != nil {
		fault := blockFault{what: err.Error(), kind: Checksum, needed: len(o.active) > 0}
		if f := asObjectError(err); f != nil {
			fault.what, fault.kind = f.Detail, kindOf(f.Fault)
		}
		o.faults = append(o.faults, fault)
		return
	}
	for _, r := range o.active {
		o.examineReference(r, block)
	}
	if block.Packed() {
		o.examineTimes(block)
	}
}

// examineReference checks that a block holds what a stream has of it.
func (o *object) examineReference(r *reference, block *blobwal.Block) {
	info := &block.Info
	ordinal := max(r.ordinal, info.First)
	last := min(r.end(), info.First+info.Count) - 1
	st := o.stream(r.id)
	if !o.holds(st, r, info, block.Name, ordinal, last) {
		return
	}
	at := r.offset(ordinal)
	if has := block.Base() + stream.Offset(ordinal-info.First); block.Packed() && has != at {
		o.problem(Offsets, "its record %d is record %d of its stream, and record %d of %s lies there", ordinal, has, at, named(st))
	}
	if block.JSON != stream.IsJSON(st.Config.ContentType) {
		o.problem(MediaType, "block %d holds JSON: %t, and %s is %s", info.Number, block.JSON, named(st), st.Config.ContentType)
	}
	if r.cut {
		run := block.Run(ordinal, 1)
		if n := len(run.Body(0)); n <= int(r.bytes) {
			o.problem(Records, "its record %d has %d bytes, and %s has the first %d of them", ordinal, n, named(st), r.bytes)
		}
	}
}

// holds checks whose a block is that has the records from an ordinal to a last
// one of a reference.
func (o *object) holds(st *statemachine.Stream, r *reference, info *blobwal.BlockInfo, name stream.Name, from, last uint32) bool {
	// What a stream inherited lies below what it wrote itself: its last record here
	// decides.
	if o.owns(st, r.offset(last), info.Stream, name, info.Packed) {
		return true
	}
	o.problem(Owner, "its records %d to %d are those of stream %d %q, and records %s of %s lie there",
		from, last, info.Stream, string(name), span(r.offset(from), r.offset(last)+1), named(st))
	return false
}

// examineTimes checks that the times of a packed block never fall, go on from
// the block before if it is the same stream's, and lie within what the log says
// of the segment.
func (o *object) examineTimes(block *blobwal.Block) {
	info := &block.Info
	first, last := block.TimeOf(info.First), block.TimeOf(info.First+info.Count-1)
	before := first
	if o.last.Count > 0 && o.last.Stream == info.Stream && o.ended == block.Base() {
		before = o.newest
	}
	for n := range info.Count {
		at := block.TimeOf(info.First + n)
		if at < before {
			o.problem(Times, "its record %d has time %d, and the record before it %d", info.First+n, at, before)
			break
		}
		before = at
	}
	if first < o.in.Oldest || last > o.in.Newest {
		o.problem(Times, "block %d has records from time %d to %d, and the log says %d to %d", info.Number, first, last, o.in.Oldest, o.in.Newest)
	}
	o.last, o.ended, o.newest = *info, block.Base()+stream.Offset(info.Count), last
}

// checkBlocksOfIndex checks whose the blocks are as far as the index alone says.
func (o *object) checkBlocksOfIndex() {
	for i := range o.index.Blocks {
		info := &o.index.Blocks[i]
		o.reach(info)
		for _, r := range o.active {
			from, last := max(r.ordinal, info.First), min(r.end(), info.First+info.Count)-1
			o.holds(o.stream(r.id), r, info, "", from, last)
		}
	}
}

// stream is a stream that refers to the object.
func (o *object) stream(id stream.ID) *statemachine.Stream {
	if o.looked.ID != id {
		o.looked, _ = o.view.Stream(id)
		o.looked.ID = id
	}
	return &o.looked
}
