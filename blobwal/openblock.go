package blobwal

import (
	"encoding/binary"

	"github.com/picomq/picomq/stream"
)

// openBlock is the block that a packer is filling. Its parts lie apart until
// their lengths are known.
type openBlock struct {
	stream  stream.ID     // of the block, and once it is finished of the one before
	next    stream.Offset // after the last record
	json    bool
	packing packing
	ends    []uint32
	headers []byte // encoded; empty when no record has any
	bodies  []byte // of a block that one run fills: the run's own
	buffer  []byte // memory for bodies
}

func (b *openBlock) len() int { return len(b.ends) }

// goesOn tells whether a run may lie in the same block as what is there.
func (b *openBlock) goesOn(id stream.ID, run *stream.Run) bool {
	return b.stream == id && b.next == run.First && b.json == run.JSON
}

// size is the bytes of the block as it is.
func (b *openBlock) size() int {
	n := blockBytes + packingBytes + timeBytes*len(b.packing.ends) + endBytes*len(b.ends) + len(b.bodies)
	if len(b.headers) > 0 {
		n += 4 + len(b.headers)
	}
	return n
}

// mayGrow is what the records that are there will take besides if one with
// headers comes.
func (b *openBlock) mayGrow() int {
	if len(b.headers) > 0 {
		return 0
	}
	return 4 + len(b.ends)
}

// take takes records of a run from one on, as many as fit, and at least one if
// there is none yet; to is the one after. Full says that the block must be
// finished before anything else: no record fits any more, or its bodies are
// those of the run itself, not copied.
func (b *openBlock) take(id stream.ID, run *stream.Run, from int) (to int, full bool) {
	to, size := b.fill(run, from)
	full = to < run.Len() || size >= MaxBlockBytes
	if to == from {
		return to, full
	}
	part := run.Slice(from, to)
	if b.len() == 0 {
		b.stream, b.json, b.packing.base = id, run.JSON, part.First
	}
	b.takeHeaders(&part)
	b.takeBodies(&part, full)
	b.packing.add(part.Len(), part.Time)
	b.next = part.First + stream.Offset(part.Len())
	return to, full
}

// fill is the end of the records from one on that fit, and the size of the
// block with them.
func (b *openBlock) fill(run *stream.Run, from int) (to, size int) {
	size = b.size()
	if n := len(b.packing.times); n == 0 || b.packing.times[n-1] != run.Time {
		size += timeBytes
	}
	count, withHeaders := b.len(), len(b.headers) > 0
	for to = from; to < run.Len(); to++ {
		next := size + endBytes + len(run.Body(to))
		if run.JSON && count > 0 {
			next++
		}
		headers := run.HeadersOf(to)
		switch {
		case withHeaders:
			next += headersBytes(headers)
		case len(headers) > 0:
			next += 4 + count + headersBytes(headers)
		}
		if count > 0 && next > MaxBlockBytes {
			break
		}
		size, count, withHeaders = next, count+1, withHeaders || len(headers) > 0
	}
	return to, size
}

// takeHeaders encodes the headers of the records of part. Records before the
// first one that has any get an empty list each.
func (b *openBlock) takeHeaders(part *stream.Run) {
	for i := range part.Len() {
		headers := part.HeadersOf(i)
		if len(b.headers) == 0 {
			if len(headers) == 0 {
				continue
			}
			b.headers = append(b.headers, make([]byte, b.len()+i)...)
		}
		b.headers = appendHeaders(b.headers, headers)
	}
}

// takeBodies takes the bodies and where each ends. A block that is full with the
// records of one run alone need not be collected: its bodies are used where they
// lie.
func (b *openBlock) takeBodies(part *stream.Run, full bool) {
	switch {
	case b.len() == 0 && full:
		b.bodies = part.Bodies
	case b.len() == 0:
		b.bodies = append(b.buffer[:0], part.Bodies...)
		b.buffer = b.bodies
	default:
		if b.json {
			b.bodies = append(b.bodies, ',')
		}
		b.bodies = append(b.bodies, part.Bodies...)
		b.buffer = b.bodies
	}
	start := uint32(len(b.bodies)-len(part.Bodies)) - part.Base
	for _, end := range part.Ends {
		b.ends = append(b.ends, start+end)
	}
}

// appendTo writes the block at the end of p.
func (b *openBlock) appendTo(p []byte) []byte {
	flags := byte(flagPacked)
	if b.json {
		flags |= flagJSON
	}
	if len(b.headers) > 0 {
		flags |= flagHeaders
	}
	p = binary.BigEndian.AppendUint64(p, uint64(b.stream))
	p = binary.BigEndian.AppendUint32(p, uint32(b.len()))
	p = append(p, flags, 0, 0, 0) // and no name
	p = b.packing.appendTo(p)
	for _, end := range b.ends {
		p = binary.BigEndian.AppendUint32(p, end)
	}
	if len(b.headers) > 0 {
		p = binary.BigEndian.AppendUint32(p, uint32(len(b.headers)))
		p = append(p, b.headers...)
	}
	return append(p, b.bodies...)
}

// reset makes the block empty. It keeps whose it was and where it ended, for
// what comes next, and memory of the size of a usual block.
func (b *openBlock) reset() {
	b.packing.ends, b.packing.times = b.packing.ends[:0], b.packing.times[:0]
	b.ends, b.bodies = b.ends[:0], nil
	b.headers = b.headers[:0]
	if cap(b.headers) > MaxBlockBytes {
		b.headers = nil
	}
}
