package blobwal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"sort"
	"unsafe"

	"github.com/picomq/picomq/stream"
)

// Version is the format version that this package writes, and the only one
// there is.
const Version = 1

// MaxBlockBytes is the size of the largest block that holds more than one
// record.
const MaxBlockBytes = 64 << 10

// MaxObjectBytes is the size of the largest object that is read or written. It
// bounds what a wrong size can make a reader allocate.
const MaxObjectBytes = 1 << 30

const (
	headerMagic  = "PICOSEG\n"
	headerPacked = 1 << 0 // of the header's flags

	footerMagic = "\nGESOCIP"

	headerBytes = 72
	entryBytes  = 20 // of the index, for a block
	footerBytes = 36

	minObjectBytes = headerBytes + headerBytes + footerBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// Index says what a segment holds and where. It is immutable and safe for
// concurrent use.
type Index struct {
	Identity Identity
	Sequence uint64
	Packed   bool   // written by a [Packer], not by a [Writer]
	Size     uint64 // bytes of the object
	Records  uint32 // in all blocks
	Blocks   []BlockInfo
}

// BlockInfo is a block's line in the index.
type BlockInfo struct {
	Number   uint32    // its place among the blocks, from 0
	Packed   bool      // as its segment is
	Stream   stream.ID // 0 when the block carries a name instead
	Position uint64    // of its first byte in the object
	Length   uint32    // bytes
	First    uint32    // ordinal of its first record
	Count    uint32    // records, at least 1
	CRC      uint32
}

// ID is the segment's ID.
func (x *Index) ID() SegmentID { return x.Identity.Segment(x.Sequence) }

// Find is the block that holds the record with this ordinal; false when the
// segment has no such record.
func (x *Index) Find(ordinal uint32) (BlockInfo, bool) {
	if ordinal >= x.Records {
		return BlockInfo{}, false
	}
	after := sort.Search(len(x.Blocks), func(i int) bool { return x.Blocks[i].First > ordinal })
	return x.Blocks[after-1], true
}

// MemoryBytes is the memory that the index holds on to, in bytes.
func (x *Index) MemoryBytes() int {
	return int(unsafe.Sizeof(*x)) + cap(x.Blocks)*int(unsafe.Sizeof(BlockInfo{}))
}

// Footprint is the memory, in bytes, that a whole object takes together with
// its index and all its blocks decoded. It looks at the footer only; of what is
// not a segment it is the length.
func Footprint(object []byte) int {
	f, err := parseFooter(object, uint64(len(object)))
	if err != nil {
		return len(object)
	}
	perBlock := int(unsafe.Sizeof(BlockInfo{})+unsafe.Sizeof(Block{})) + int(unsafe.Sizeof(uintptr(0)))
	times := 0
	if IsPacked(object) {
		perBlock += int(unsafe.Sizeof(packing{}))
		times = min(int(f.records)*spanBytes, len(object)) // a span takes no less in the object, with a record's end
	}
	return cap(object) + int(unsafe.Sizeof(Index{})) + f.blocks()*perBlock + int(f.records)*endBytes + times
}

// IsPacked tells whether an object begins as a packed segment does. It checks
// nothing else.
func IsPacked(object []byte) bool {
	return len(object) >= headerBytes && string(object[:8]) == headerMagic &&
		binary.BigEndian.Uint16(object[10:])&headerPacked != 0
}

// ParseObject reads header, footer and index of a whole object and checks them
// and their lengths. It does not look into the blocks: [DecodeBlock] checks
// each as it is used, [Verify] checks all. The error is an [*ObjectError].
func ParseObject(object []byte) (*Index, error) {
	f, err := parseFooter(object, uint64(len(object)))
	if err != nil {
		return nil, err
	}
	index, err := parseIndex(object[f.position:f.position+uint64(f.length)], f)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(object[:headerBytes], object[f.position:f.position+headerBytes]) {
		return nil, faultf(FaultChecksum, "the header differs from its copy in the index")
	}
	return index, nil
}

// Verify is [ParseObject] and a check of every block: when it returns nil, the
// object is, byte for byte, one that was written.
func Verify(object []byte) (*Index, error) {
	index, err := ParseObject(object)
	if err != nil {
		return nil, err
	}
	for _, info := range index.Blocks {
		if _, err := DecodeBlock(info, object[info.Position:info.Position+uint64(info.Length)]); err != nil {
			return nil, err
		}
	}
	return index, nil
}

func appendHeader(b []byte, flags uint16, id Identity, sequence uint64) []byte {
	start := len(b)
	b = append(b, headerMagic...)
	b = binary.BigEndian.AppendUint16(b, Version)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = append(b, id.Cluster[:]...)
	b = binary.BigEndian.AppendUint16(b, id.Log)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, id.Node)
	b = binary.BigEndian.AppendUint64(b, id.Epoch)
	b = append(b, id.Incarnation[:]...)
	b = binary.BigEndian.AppendUint64(b, sequence)
	return binary.BigEndian.AppendUint32(b, checksum(b[start:]))
}

// parseHeader reads what a header says of its segment into x.
func (x *Index) parseHeader(b []byte) error {
	flags := binary.BigEndian.Uint16(b[10:])
	switch {
	case string(b[:8]) != headerMagic:
		return faultf(FaultFormat, "it does not begin as a segment does")
	case checksum(b[:68]) != binary.BigEndian.Uint32(b[68:]):
		return faultf(FaultChecksum, "the header does not match its checksum")
	case binary.BigEndian.Uint16(b[8:]) != Version:
		return versionFault(binary.BigEndian.Uint16(b[8:]))
	case flags&^headerPacked != 0 || binary.BigEndian.Uint16(b[30:]) != 0:
		return faultf(FaultFormat, "the header has flags of a later release")
	}
	id := &x.Identity
	copy(id.Cluster[:], b[12:])
	id.Log = binary.BigEndian.Uint16(b[28:])
	id.Node = binary.BigEndian.Uint32(b[32:])
	id.Epoch = binary.BigEndian.Uint64(b[36:])
	copy(id.Incarnation[:], b[44:])
	x.Sequence = binary.BigEndian.Uint64(b[60:])
	x.Packed = flags&headerPacked != 0
	if x.Sequence == 0 {
		return faultf(FaultFormat, "the sequence is 0")
	}
	return nil
}

func versionFault(version uint16) error {
	return faultf(FaultFormat, "it has format version %d, and this release reads version %d", version, Version)
}

// footer is what the last bytes of an object say. Of a parsed footer the
// lengths are known to fit the object's size.
type footer struct {
	size     uint64 // of the object
	position uint64 // of the index
	length   uint32 // of the index
	crc      uint32 // of the index
	records  uint32
}

func (f *footer) blocks() int { return (int(f.length) - headerBytes) / entryBytes }

func appendFooter(b []byte, f *footer) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint64(b, f.position)
	b = binary.BigEndian.AppendUint32(b, f.length)
	b = binary.BigEndian.AppendUint32(b, f.crc)
	b = binary.BigEndian.AppendUint32(b, f.records)
	b = binary.BigEndian.AppendUint16(b, Version)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, checksum(b[start:]))
	return append(b, footerMagic...)
}

// parseFooter reads the footer at the end of tail, the last bytes of an object
// of this size.
func parseFooter(tail []byte, size uint64) (*footer, error) {
	if size < minObjectBytes || len(tail) < footerBytes {
		return nil, faultf(FaultTruncated, "it has %d bytes, and the smallest segment has %d", size, minObjectBytes)
	}
	if size > MaxObjectBytes {
		return nil, faultf(FaultFormat, "it has %d bytes, and the largest segment has %d", size, MaxObjectBytes)
	}
	b := tail[len(tail)-footerBytes:]
	switch {
	case string(b[28:]) != footerMagic:
		return nil, faultf(FaultTruncated, "it does not end as a segment does")
	case checksum(b[:24]) != binary.BigEndian.Uint32(b[24:]):
		return nil, faultf(FaultChecksum, "the footer does not match its checksum")
	case binary.BigEndian.Uint16(b[20:]) != Version:
		return nil, versionFault(binary.BigEndian.Uint16(b[20:]))
	case binary.BigEndian.Uint16(b[22:]) != 0:
		return nil, faultf(FaultFormat, "the footer has flags of a later release")
	}
	f := &footer{
		size:     size,
		position: binary.BigEndian.Uint64(b),
		length:   binary.BigEndian.Uint32(b[8:]),
		crc:      binary.BigEndian.Uint32(b[12:]),
		records:  binary.BigEndian.Uint32(b[16:]),
	}
	fits := f.position >= headerBytes && f.position <= size && uint64(f.length) == size-footerBytes-f.position
	whole := f.length >= headerBytes && (f.length-headerBytes)%entryBytes == 0
	if !fits || !whole {
		return nil, faultf(FaultTruncated, "its index (%d bytes at %d) does not fit its size of %d", f.length, f.position, size)
	}
	return f, nil
}

func appendEntry(b []byte, info *BlockInfo) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(info.Stream))
	b = binary.BigEndian.AppendUint32(b, info.Length)
	b = binary.BigEndian.AppendUint32(b, info.Count)
	return binary.BigEndian.AppendUint32(b, info.CRC)
}

// parseIndex reads an index of exactly the length its footer says.
func parseIndex(b []byte, f *footer) (*Index, error) {
	if checksum(b) != f.crc {
		return nil, faultf(FaultChecksum, "the index does not match its checksum")
	}
	x := &Index{Size: f.size, Records: f.records}
	if err := x.parseHeader(b); err != nil {
		return nil, err
	}
	x.Blocks = make([]BlockInfo, f.blocks())
	position, first := uint64(headerBytes), uint64(0)
	b = b[headerBytes:]
	for i := range x.Blocks {
		info := BlockInfo{
			Number: uint32(i), Packed: x.Packed, Position: position, First: uint32(first),
			Stream: stream.ID(binary.BigEndian.Uint64(b)),
			Length: binary.BigEndian.Uint32(b[8:]),
			Count:  binary.BigEndian.Uint32(b[12:]),
			CRC:    binary.BigEndian.Uint32(b[16:]),
		}
		position += uint64(info.Length)
		first += uint64(info.Count)
		if info.Count == 0 || position > f.position || first > math.MaxUint32 {
			return nil, faultf(FaultFormat, "block %d of its index does not fit the object", i)
		}
		x.Blocks[i] = info
		b = b[entryBytes:]
	}
	if position != f.position || first != uint64(f.records) {
		return nil, faultf(FaultFormat, "its blocks do not add up to its size and number of records")
	}
	return x, nil
}
