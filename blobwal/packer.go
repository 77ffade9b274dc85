package blobwal

import (
	"errors"
	"fmt"

	"github.com/picomq/picomq/stream"
)

// MaxPackedBlocks is how many blocks a packed segment has at most. It bounds
// the index that a reader of any one of its streams must fetch and keep: 1.3 MB
// in the object, twice that in memory.
const MaxPackedBlocks = 1 << 16

// MaxSegmentRecords is how many records a packed segment has at most: ordinals
// stay below 2^30, so that the log can keep two bits beside them.
const MaxSegmentRecords = 1<<30 - 1

// minPackedBytes is the least bound that a packer can be given.
const minPackedBytes = 1 << 10

// ErrPackerFull says that a run does not fit what a packed segment may still
// take. Nothing of it was taken.
var ErrPackerFull = errors.New("blobwal: the packed segment is full")

// Packer builds one packed segment from runs of records that were read from
// other segments. It is not safe for concurrent use.
//
// Its memory is the object under construction, allocated once at the bound that
// it was given, and beside it the index and one block, at most 4 MiB with the
// headers of one large record on top. It holds on to nothing of the runs it was
// given.
//
// The object follows from the records alone: neither time nor how the records
// were cut into runs has a part in it.
type Packer struct {
	identity Identity
	sequence uint64
	object   []byte // header and finished blocks; its capacity is the bound
	index    []byte // the header again and a line for each finished block
	blocks   int    // finished
	records  uint32 // in finished blocks
	open     openBlock
	oldest   stream.Time
	newest   stream.Time
}

// Packed is a packed segment as bytes.
type Packed struct {
	ID      SegmentID
	Object  []byte
	Records uint32
	Blocks  int
	Oldest  stream.Time // the least time of a record
	Newest  stream.Time // the greatest
}

// NewPacker starts a packed segment under a sequence that was reserved for it
// (see [Writer.Reserve]). The object will have at most maxBytes, which is 1 KiB
// to [MaxObjectBytes]; they are allocated at once.
func NewPacker(identity Identity, sequence uint64, maxBytes int) (*Packer, error) {
	switch {
	case sequence == 0:
		return nil, errors.New("blobwal: sequences count from 1")
	case maxBytes < minPackedBytes || maxBytes > MaxObjectBytes:
		return nil, fmt.Errorf("blobwal: the bound of a packed segment is %d bytes and must be %d to %d", maxBytes, minPackedBytes, MaxObjectBytes)
	}
	p := &Packer{identity: identity, sequence: sequence, object: make([]byte, 0, maxBytes)}
	p.object = appendHeader(p.object, headerPacked, identity, sequence)
	p.index = append(p.index, p.object...)
	return p, nil
}

// Records is how many records were taken: the ordinal of the next one.
func (p *Packer) Records() uint32 { return p.records + uint32(p.open.len()) }

// Bytes is what the object would have if it were sealed now. What the records of
// some runs take is the difference between after and before they were added; all
// such differences add up to less than the object.
func (p *Packer) Bytes() int {
	n := len(p.object) + len(p.index) + footerBytes
	if p.open.len() > 0 {
		n += p.open.size() + entryBytes
	}
	return n
}

// What adding records costs beside their bytes, at most. A run may open a block,
// or begin a span in an open one, and end one that is too full for it; a JSON
// run is separated from what is before it. Of two neighbouring blocks within a
// run the records take more than half of MaxBlockBytes.
const (
	openBytes = blockBytes + packingBytes + timeBytes + 4 + entryBytes
	runBytes  = 2*openBytes + timeBytes + 1
)

func cuts(bytes int) int { return 2 * (2 * bytes / MaxBlockBytes) }

// Fits tells whether this many runs, which together have so many records and
// take so many bytes in the blocks that they come from, will surely be taken by
// Add: for extents whose parts must not be torn apart. It errs only towards
// false, by some 150 bytes a run and less than 1% beyond.
func (p *Packer) Fits(runs, records, bytes int) bool {
	if runs < 0 || records < 0 || bytes < 0 || max(runs, bytes) > cap(p.object) || records > MaxSegmentRecords {
		return false
	}
	bytes += records // an empty list of headers each, beside others that have some
	used := p.Bytes() + p.open.mayGrow()
	blocks := p.blocks + 1 + 2*runs + cuts(bytes)
	return used+runs*runBytes+bytes+cuts(bytes)*openBytes <= cap(p.object) &&
		uint64(p.Records())+uint64(records) <= MaxSegmentRecords && blocks <= MaxPackedBlocks
}

// Add takes the records of a run, which must have First and Time set, and
// returns the ordinal of the first; the others follow it. Runs of one stream
// must be added one after the other and in the order of their offsets, but may
// leave out some.
//
// Its bytes are copied: once if they fill a block, and once more through a block
// under construction if they do not. A run may be a part of a block's (see
// [stream.Run.Slice]), and its bodies need not be as they were in the segment
// they come from.
//
// When the segment cannot take the run, nothing of it was taken and the error is
// [ErrPackerFull]: seal it. Any other error says what is wrong with the run.
func (p *Packer) Add(id stream.ID, run stream.Run) (ordinal uint32, err error) {
	if err := p.check(id, &run); err != nil {
		return 0, err
	}
	bytes := len(run.Bodies) + endBytes*run.Len()
	for _, headers := range run.Headers {
		bytes += headersBytes(headers) - 1 // Fits counts an empty list
	}
	if !p.Fits(1, run.Len(), bytes) {
		return 0, ErrPackerFull
	}
	ordinal = p.Records()
	if ordinal == 0 {
		p.oldest, p.newest = run.Time, run.Time
	}
	p.oldest, p.newest = min(p.oldest, run.Time), max(p.newest, run.Time)
	if !p.open.goesOn(id, &run) {
		p.finish()
	}
	for from := 0; from < run.Len(); {
		to, full := p.open.take(id, &run, from)
		if full {
			p.finish()
		}
		from = to
	}
	return ordinal, nil
}

func (p *Packer) check(id stream.ID, run *stream.Run) error {
	n := stream.Offset(run.Len())
	switch {
	case id == 0 || n == 0:
		return errors.New("blobwal: a packed run needs a stream and at least one record")
	case run.First > stream.MaxOffset || n > stream.MaxOffset-run.First:
		return fmt.Errorf("blobwal: a packed run of stream %d goes from offset %d on for %d records, beyond the last possible offset", id, run.First, n)
	case id == p.open.stream && run.First < p.open.next:
		return fmt.Errorf("blobwal: a packed run of stream %d begins at offset %d, and the one before ended at %d", id, run.First, p.open.next)
	}
	for i, headers := range run.Headers {
		if len(headers) > MaxHeaders {
			return fmt.Errorf("blobwal: record %d of a packed run has %d headers, and at most %d are allowed", i, len(headers), MaxHeaders)
		}
	}
	return nil
}

// finish writes the open block, if it holds something.
func (p *Packer) finish() {
	n := p.open.len()
	if n == 0 {
		return
	}
	start := len(p.object)
	p.object = p.open.appendTo(p.object)
	p.index = appendEntry(p.index, &BlockInfo{
		Stream: p.open.stream,
		Length: uint32(len(p.object) - start),
		Count:  uint32(n),
		CRC:    checksum(p.object[start:]),
	})
	p.blocks++
	p.records += uint32(n)
	p.open.reset()
}

// Seal ends the segment and returns it, nil when it holds no record. The packer
// takes nothing after it.
func (p *Packer) Seal() *Packed {
	p.finish()
	object := p.object
	p.object = nil // it has no room any more: Add answers ErrPackerFull
	if p.records == 0 {
		return nil
	}
	f := &footer{position: uint64(len(object)), length: uint32(len(p.index)), crc: checksum(p.index), records: p.records}
	object = appendFooter(append(object, p.index...), f)
	return &Packed{
		ID: p.identity.Segment(p.sequence), Object: object, Records: p.records, Blocks: p.blocks,
		Oldest: p.oldest, Newest: p.newest,
	}
}
