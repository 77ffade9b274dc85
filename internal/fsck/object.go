package fsck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

const (
	// wholeBytes is the size up to which an object is read with one get, and
	// windowBytes how much of a larger one is read at a time.
	wholeBytes  = 8 << 20
	windowBytes = 1 << 20
	// maxProblems is how many findings one object may give.
	maxProblems = 20
	// namedStreams is how many streams a finding on an object names.
	namedStreams = 3
)

// object is a segment's object under examination, by one goroutine.
type object struct {
	*checker
	in   *statemachine.Slotted
	key  string
	refs []reference // by ordinal

	index    *blobwal.Index
	problems int
	faults   []blockFault

	next   int                 // the first reference that no block came to yet
	active []*reference        // those that the block reaches
	last   blobwal.BlockInfo   // packed: the block before
	ended  stream.Offset       // and the offset after its last record
	newest stream.Time         // and that record's time
	looked statemachine.Stream // the stream looked up last
}

// blockFault is a block that cannot be read.
type blockFault struct {
	what   string
	kind   Kind
	needed bool // an extent has records in it
}

// check examines the object. What it finds is told; the error is of the bucket.
func (o *object) check(ctx context.Context) error {
	o.checkReferences()
	if listed := o.known.listed[o.in.Slot]; listed != 0 && listed-1 != o.in.Size {
		kind := TooLong
		if listed-1 < o.in.Size {
			kind = Truncated
		}
		o.bad(kind, fmt.Sprintf("it has %d bytes and was written with %d", listed-1, o.in.Size))
		return nil
	}
	err := o.read(ctx)
	var fault *blobwal.ObjectError
	switch {
	case errors.As(err, &fault) && fault.Fault == blobwal.FaultMissing:
		return o.missing()
	case errors.As(err, &fault):
		o.bad(kindOf(fault.Fault), fault.Detail)
		return nil
	case err != nil:
		return err
	}
	o.tellFaults()
	return nil
}

// read reads as much as is to be checked.
func (o *object) read(ctx context.Context) (err error) {
	if !o.Quick && o.in.Size <= wholeBytes {
		return o.readWhole(ctx)
	}
	o.index, err = retry(ctx, func() (*blobwal.Index, error) { return blobwal.ReadIndex(ctx, o.Bucket, o.key, o.in.Size) })
	if err != nil || !o.checkIndex() {
		return err
	}
	if o.Quick {
		o.checkBlocksOfIndex()
		return nil
	}
	if err := o.checkHeader(ctx); err != nil {
		return err
	}
	return o.readWindows(ctx)
}

// readWhole reads the object with one get.
func (o *object) readWhole(ctx context.Context) error {
	data, err := retry(ctx, func() (data []byte, err error) {
		data, o.index, err = blobwal.ReadObject(ctx, o.Bucket, o.key, o.in.Size)
		return data, err
	})
	if err != nil || !o.checkIndex() {
		return err
	}
	for _, info := range o.index.Blocks {
		block, err := blobwal.DecodeBlock(info, data[info.Position:info.Position+uint64(info.Length)])
		o.examine(info, block, err)
	}
	return nil
}

// checkHeader compares a large object's header with its copy in the index, which
// is all that was read of it yet.
func (o *object) checkHeader(ctx context.Context) error {
	end := uint64(headerBytes)
	if n := len(o.index.Blocks); n > 0 {
		end = o.index.Blocks[n-1].Position + uint64(o.index.Blocks[n-1].Length)
	}
	var headers [2][]byte
	for i, position := range []uint64{0, end} {
		var err error
		headers[i], err = retry(ctx, func() (p []byte, err error) {
			r, err := o.Bucket.NewRangeReader(ctx, o.key, int64(position), headerBytes, nil)
			if err != nil {
				return nil, fmt.Errorf("read the header of %s: %w", o.key, err)
			}
			defer func() { err = errors.Join(err, r.Close()) }()
			var b bytes.Buffer
			_, err = b.ReadFrom(r)
			return b.Bytes(), err
		})
		if err != nil {
			return err
		}
	}
	if !bytes.Equal(headers[0], headers[1]) {
		return &blobwal.ObjectError{Key: o.key, Fault: blobwal.FaultChecksum, Detail: "the header differs from its copy in the index"}
	}
	return nil
}

// headerBytes is the length of a segment's header.
const headerBytes = 72

// readWindows reads a large object's blocks, some at a time.
func (o *object) readWindows(ctx context.Context) error {
	blocks := o.index.Blocks
	for from := 0; from < len(blocks); {
		to, size := from, uint64(0)
		for to < len(blocks) && (to == from || size+uint64(blocks[to].Length) <= windowBytes) {
			size += uint64(blocks[to].Length)
			to++
		}
		var read []*blobwal.Block
		_, err := retry(ctx, func() (_ struct{}, err error) {
			read, err = blobwal.ReadBlocks(ctx, o.Bucket, o.key, o.index, from, to)
			return struct{}{}, err
		})
		for _, b := range read {
			o.examine(b.Info, b, nil)
		}
		from += len(read)
		var fault *blobwal.ObjectError
		switch {
		case err == nil:
		case errors.As(err, &fault) && fault.Fault != blobwal.FaultMissing && fault.Fault != blobwal.FaultTruncated:
			o.examine(blocks[from], nil, err)
			from++
		default:
			return err
		}
	}
	return nil
}

// checkIndex checks what the index says of the whole. It tells whether the blocks
// are worth looking at.
func (o *object) checkIndex() bool {
	x := o.index
	if x.Packed != (o.in.Level > 0) {
		o.bad(Foreign, fmt.Sprintf("it says packed: %t, and the log has it at level %d", x.Packed, o.in.Level))
		return false
	}
	s := start{o.in.Node, o.in.Epoch}
	want, ok := o.starts[s]
	if n := o.nodes[s.node]; n.Epoch == s.epoch {
		want, ok = n.Incarnation, true
	}
	if ok && commands.Incarnation(x.Identity.Incarnation) != want {
		o.bad(Foreign, fmt.Sprintf("incarnation %s wrote it, and epoch %d of node %d is that of %s",
			commands.Incarnation(x.Identity.Incarnation), s.epoch, s.node, want))
		return false
	}
	for i := range o.refs {
		if r := &o.refs[i]; uint64(r.ordinal)+uint64(r.count) > uint64(x.Records) {
			o.problem(Records, "%s has its records %d to %d there, and it has %d", o.nameOf(r.id), r.ordinal, r.end()-1, x.Records)
		}
	}
	return true
}

func kindOf(f blobwal.Fault) Kind {
	switch f {
	case blobwal.FaultMissing:
		return Missing
	case blobwal.FaultTruncated:
		return Truncated
	case blobwal.FaultChecksum:
		return Checksum
	case blobwal.FaultForeign:
		return Foreign
	case blobwal.FaultFormat:
		return Format
	default:
		return Kind(f.String())
	}
}

// problem tells a finding on what streams have in the object.
func (o *object) problem(kind Kind, format string, args ...any) {
	switch o.problems++; {
	case o.problems < maxProblems:
		o.fail(kind, o.key, reportIt, format, args...)
	case o.problems == maxProblems:
		o.fail(kind, o.key, reportIt, "there is more of this kind; the first: "+format, args...)
	}
}

// bad tells that the object is not what was written.
func (o *object) bad(kind Kind, what string) {
	o.fail(kind, o.key, "restore the object from a copy: what streams have of it cannot be read", "%s; %s", what, o.holders())
}

// missing is about an object that is not there.
func (o *object) missing() error {
	f := Finding{
		Severity: Error, Kind: Missing, Object: o.key, What: "the bucket does not have it; " + o.holders(),
		Do: "restore the object from a copy: what streams have of it cannot be read",
	}
	if !o.shared {
		o.tell(f)
		return nil
	}
	return o.postpone(f, o.in)
}

// tellFaults tells the blocks that cannot be read, in one finding.
func (o *object) tellFaults() {
	if len(o.faults) == 0 {
		return
	}
	first, needed := o.faults[0], false
	for _, f := range o.faults {
		if f.needed && !needed {
			first, needed = f, true
		}
	}
	what := first.what
	if n := len(o.faults); n > 1 {
		what += fmt.Sprintf(", nor are %d other of its %d blocks good", n-1, len(o.index.Blocks))
	}
	if needed {
		o.bad(first.kind, what)
		return
	}
	o.warn(first.kind, o.key, "nothing refers to it: none is needed", "%s", what)
}

// holders names some of the streams that have records in the object.
func (o *object) holders() string {
	var list []string
	seen := map[stream.ID]bool{}
	for i := range o.refs {
		r := &o.refs[i]
		if !seen[r.id] && len(seen) < namedStreams {
			list = append(list, fmt.Sprintf("records %s of %s", span(r.first, r.first+stream.Offset(r.count)), o.nameOf(r.id)))
		}
		seen[r.id] = true
	}
	text := "it holds " + strings.Join(list, ", ")
	if more := len(seen) - len(list); more > 0 {
		text += " and records of " + count(uint64(more), "other stream")
	}
	return text
}

func (o *object) nameOf(id stream.ID) string {
	st, ok := o.view.Stream(id)
	if !ok {
		return fmt.Sprintf("stream %d", id)
	}
	return named(&st)
}
