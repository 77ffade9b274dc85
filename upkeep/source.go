package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// windowBytes is how much of a large input is read at once.
const windowBytes = 1 << 20

// readTimeout is how long one read may take.
const readTimeout = time.Minute

// wholeBytes is the size up to which an input that an upload wrote is read whole:
// all of a step have about a packed segment's bytes together. Of packed ones, each
// of which may have those alone, no more than a window is in memory.
const wholeBytes = 8 << 20

// source reads the records of one input, mostly in the order in which they lie.
// A small one is in memory whole; of a large one there are the index and a window
// of blocks.
type source struct {
	*Upkeep
	in     statemachine.Slotted
	id     blobwal.SegmentID
	index  *blobwal.Index
	object []byte           // nil when the input is large
	blocks []*blobwal.Block // decoded: the last one, or the window
	read   *int64           // bytes read from the bucket, counted here
	failed error            // why it could not be read
}

// open reads what it takes to find records.
func (s *source) open(ctx context.Context) (err error) {
	g := &s.in
	if object, ok := s.cfg.Cache.Recent(s.id); ok {
		s.object = object
		s.index, err = blobwal.ParseObject(object)
		return blobwal.WithKey(s.key(), err)
	}
	if g.Size > wholeBytes || (g.Level > 0 && g.Size > windowBytes) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		s.index, err = blobwal.ReadIndex(ctx, s.cfg.Bucket, s.key(), g.Size)
		return err
	}
	if err := s.paced(ctx, int64(g.Size)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s.object, s.index, err = blobwal.ReadObject(ctx, s.cfg.Bucket, s.key(), g.Size)
	return err
}

// span is the bytes of the blocks that an extent's records lie in.
func (s *source) span(e *statemachine.Extent) (bytes int) {
	for i := range s.index.Blocks {
		if b := &s.index.Blocks[i]; b.First < e.Ordinal+e.Count() && b.First+b.Count > e.Ordinal {
			bytes += int(b.Length)
		}
	}
	return bytes
}

func (s *source) key() string { return blobwal.Key(s.cfg.Identity.Cluster, s.id) }

// paced waits until so many bytes may be read.
func (s *source) paced(ctx context.Context, bytes int64) error {
	*s.read += bytes
	return s.wait(ctx, bytes)
}

// block is the block that holds a record.
func (s *source) block(ctx context.Context, ordinal uint32) (*blobwal.Block, error) {
	for _, b := range s.blocks {
		if b.Has(ordinal) {
			return b, nil
		}
	}
	info, ok := s.index.Find(ordinal)
	if !ok {
		return nil, s.wrong("the log names record %d, and it has %d", ordinal, s.index.Records)
	}
	if s.object == nil {
		return s.window(ctx, info)
	}
	b, err := blobwal.DecodeBlock(info, s.object[info.Position:info.Position+uint64(info.Length)])
	if err != nil {
		return nil, blobwal.WithKey(s.key(), err)
	}
	s.blocks = append(s.blocks[:0], b)
	return b, nil
}

// window reads a block and those that follow it.
func (s *source) window(ctx context.Context, first blobwal.BlockInfo) (*blobwal.Block, error) {
	to, bytes := int(first.Number), int64(0)
	for ; to < len(s.index.Blocks); to++ {
		n := int64(s.index.Blocks[to].Length)
		if bytes > 0 && bytes+n > windowBytes {
			break
		}
		bytes += n
	}
	if err := s.paced(ctx, bytes); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	blocks, err := blobwal.ReadBlocks(ctx, s.cfg.Bucket, s.key(), s.index, int(first.Number), to)
	if len(blocks) == 0 {
		return nil, err
	}
	s.blocks = blocks // what is wrong behind the first is the matter of who asks for it
	return blocks[0], nil
}

// run is up to n records of a stream, from the one at an offset on, whose ordinal
// this is.
func (s *source) run(ctx context.Context, h *statemachine.Held, at stream.Offset, ordinal, n uint32) (stream.Run, error) {
	b, err := s.block(ctx, ordinal)
	if err != nil {
		return stream.Run{}, err
	}
	owner := b.Info.Stream
	if owner != h.ID && owner != 0 && (!h.Fork || owner > h.ID) {
		return stream.Run{}, s.wrong("its record %d belongs to stream %d, where the log has record %d of stream %d", ordinal, owner, at, h.ID)
	}
	run := b.Run(ordinal, int(n))
	if !b.Packed() {
		run.First, run.Time = at, s.in.Time
	}
	if run.First != at {
		return stream.Run{}, s.wrong("its record %d is record %d of its stream, where the log has record %d of stream %d", ordinal, run.First, at, h.ID)
	}
	return run, nil
}

func (s *source) wrong(format string, args ...any) error {
	return &blobwal.ObjectError{Key: s.key(), Fault: blobwal.FaultForeign, Detail: fmt.Sprintf(format, args...)}
}
