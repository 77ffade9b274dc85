package blobwal

import (
	"encoding/binary"
	"unsafe"

	"github.com/picomq/picomq/stream"
)

const (
	flagJSON    = 1 << 0
	flagHeaders = 1 << 1
	flagPacked  = 1 << 2
	knownFlags  = flagJSON | flagHeaders | flagPacked
	blockBytes  = 16 // before the name
	endBytes    = 4  // per record
)

// Block is consecutive records of one stream, decoded and checked. It is
// immutable and safe for concurrent use; its bodies alias the bytes it was
// decoded from.
type Block struct {
	Info    BlockInfo
	Name    stream.Name // only when Info.Stream is 0
	JSON    bool
	packed  *packing // nil unless the segment is packed
	ends    []uint32
	headers []byte // encoded; nil when no record has any
	bodies  []byte
}

// DecodeBlock checks the bytes of a block against its line in the index and
// against themselves, and decodes them. It allocates at most in proportion to
// the bytes. The error is an [*ObjectError].
func DecodeBlock(info BlockInfo, data []byte) (*Block, error) {
	if uint64(len(data)) != uint64(info.Length) {
		return nil, faultf(FaultTruncated, "block %d has %d bytes instead of %d", info.Number, len(data), info.Length)
	}
	if checksum(data) != info.CRC {
		return nil, faultf(FaultChecksum, "block %d does not match its checksum", info.Number)
	}
	b := &Block{Info: info}
	if !b.decode(data) {
		return nil, faultf(FaultFormat, "block %d matches its checksum but not the format", info.Number)
	}
	return b, nil
}

func (b *Block) decode(data []byte) bool {
	if len(data) < blockBytes {
		return false
	}
	id, count, flags := binary.BigEndian.Uint64(data), binary.BigEndian.Uint32(data[8:]), data[12]
	nameBytes := int(binary.BigEndian.Uint16(data[14:]))
	rest := data[blockBytes:]
	switch {
	case stream.ID(id) != b.Info.Stream || count != b.Info.Count || count == 0:
		return false
	case flags&^knownFlags != 0 || data[13] != 0:
		return false
	case (flags&flagPacked != 0) != b.Info.Packed || (id == 0 && b.Info.Packed):
		return false
	case (id == 0) != (nameBytes > 0) || nameBytes > stream.MaxNameBytes || nameBytes > len(rest):
		return false
	}
	b.JSON = flags&flagJSON != 0
	b.Name = stream.Name(rest[:nameBytes])
	rest = rest[nameBytes:]
	if b.Info.Packed {
		if b.packed, rest = decodePacking(rest, count); b.packed == nil {
			return false
		}
	}
	if uint64(count)*endBytes > uint64(len(rest)) {
		return false
	}
	ends, rest := rest[:count*endBytes], rest[count*endBytes:]
	if flags&flagHeaders != 0 {
		if len(rest) < 4 || uint64(binary.BigEndian.Uint32(rest)) > uint64(len(rest)-4) {
			return false
		}
		n := 4 + binary.BigEndian.Uint32(rest)
		b.headers, rest = rest[4:n:n], rest[n:]
		if !validHeaders(b.headers, count) {
			return false
		}
		if b.packed != nil {
			b.packed.findHeaders(b.headers)
		}
	}
	b.bodies = rest[:len(rest):len(rest)]
	return b.decodeEnds(ends)
}

// decodeEnds checks that the bodies fill the rest of the block and nothing else.
func (b *Block) decodeEnds(encoded []byte) bool {
	b.ends = make([]uint32, len(encoded)/endBytes)
	previous := uint64(0)
	for i := range b.ends {
		end := uint64(binary.BigEndian.Uint32(encoded[i*endBytes:]))
		if i > 0 && b.JSON {
			if previous >= uint64(len(b.bodies)) || b.bodies[previous] != ',' {
				return false
			}
			previous++
		}
		if end < previous || end > uint64(len(b.bodies)) {
			return false
		}
		b.ends[i] = uint32(end)
		previous = end
	}
	return previous == uint64(len(b.bodies))
}

// First is the ordinal of the block's first record.
func (b *Block) First() uint32 { return b.Info.First }

// Len is the number of records, at least 1.
func (b *Block) Len() int { return len(b.ends) }

// Has tells whether the record with this ordinal is in the block.
func (b *Block) Has(ordinal uint32) bool {
	return ordinal >= b.Info.First && ordinal-b.Info.First < b.Info.Count
}

// Run is up to n records from the one with this ordinal on, as many as the
// block has. The ordinal must be in the block (see Has) and n at least 1.
// Nothing is copied unless records have headers.
//
// First and Time of the run are left zero: only the log knows them. In a packed
// block they are set, and the run ends where the time changes.
func (b *Block) Run(ordinal uint32, n int) stream.Run {
	from := int(ordinal - b.Info.First)
	to := min(from+n, len(b.ends))
	whole := stream.Run{JSON: b.JSON, Bodies: b.bodies, Ends: b.ends}
	if b.packed != nil {
		to = b.packed.place(&whole, from, to)
	}
	run := whole.Slice(from, to)
	if b.packed == nil {
		run.First = 0
	}
	if b.headers != nil {
		position, before := b.packed.headersFrom(from)
		run.Headers = decodeHeaders(b.headers[position:], from-before, to-before)
	}
	return run
}

// Packed tells whether the block is one of a packed segment, that is whether it
// knows offsets and times.
func (b *Block) Packed() bool { return b.packed != nil }

// Base is the offset of the block's first record; 0 unless the block is packed.
func (b *Block) Base() stream.Offset {
	if b.packed == nil {
		return 0
	}
	return b.packed.base
}

// TimeOf is the time of the record with this ordinal, which must be in the
// block; 0 unless the block is packed.
func (b *Block) TimeOf(ordinal uint32) stream.Time {
	if b.packed == nil {
		return 0
	}
	return b.packed.times[b.packed.span(ordinal-b.Info.First)]
}

// Size is the memory that the block holds on to, in bytes, the data it was
// decoded from included.
func (b *Block) Size() int {
	n := int(unsafe.Sizeof(*b)) + int(b.Info.Length) + endBytes*len(b.ends) + len(b.Name)
	if b.packed != nil {
		n += b.packed.bytes()
	}
	return n
}
