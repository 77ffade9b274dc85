package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

const (
	// HeaderBytes is the length of an object's header.
	HeaderBytes = 164
	// MaxRows bounds the rows of an object.
	MaxRows = 1 << 18
	// MaxBytes bounds the rows of an object, encoded and uncompressed.
	MaxBytes = 64 << 20

	version      = 1
	digestedUpTo = 152 // what the digest covers
	checkedUpTo  = 160 // what the CRC covers
	minRowBytes  = 16  // the shortest encoded row
)

var magic = []byte("PICOLOG\n")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	// ErrDamaged is an object that contradicts itself or is cut short.
	ErrDamaged = errors.New("the archive object is damaged")
	// ErrVersion is an object that a newer release wrote.
	ErrVersion = errors.New("the archive object was written by a newer release")
)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// Link is a place between two objects of a chain: the last row before it, and
// the digest of the object that holds that row. The zero Link is before the
// first object.
type Link struct {
	Last   commands.Position
	Digest commands.ArchiveDigest
}

// LinkAt is the place that the log records as the archive's end.
func LinkAt(a commands.Archive) Link { return Link{Last: a.Head, Digest: a.Digest} }

// Header is what an object says about itself.
type Header struct {
	Cluster commands.ClusterID
	// Before is what it follows: the row before its first one, and the digest of
	// the object that holds it.
	Before Link
	Last   commands.Position
	// Earliest and Latest are the least and the greatest database time of its
	// rows. Clocks may jump, so neighbours may overlap in time.
	Earliest, Latest stream.Time
	RowsHash         [sha256.Size]byte // of the rows, encoded
	RowsBytes        uint64            // the rows' length, encoded
	Compressed       uint64            // and compressed, as they stand in the object
}

// First is the index of the object's first row.
func (h *Header) First() commands.Index { return h.Before.Last.Index + 1 }

// Rows is how many rows the object holds.
func (h *Header) Rows() int { return int(h.Last.Index - h.Before.Last.Index) }

// Key is where the object belongs.
func (h *Header) Key() string { return Key(h.Cluster, h.First(), h.Last.Index) }

// Digest names the object by what it holds.
func (h *Header) Digest() commands.ArchiveDigest {
	encoded := h.encode()
	return sha256.Sum256(encoded[:digestedUpTo])
}

// Link is the place after the object.
func (h *Header) Link() Link { return Link{Last: h.Last, Digest: h.Digest()} }

func (h *Header) encode() [HeaderBytes]byte {
	var b [HeaderBytes]byte
	copy(b[:], magic)
	binary.BigEndian.PutUint16(b[8:], version)
	copy(b[16:], h.Cluster[:])
	binary.BigEndian.PutUint64(b[32:], uint64(h.First()))
	binary.BigEndian.PutUint64(b[40:], uint64(h.Last.Index))
	binary.BigEndian.PutUint64(b[48:], uint64(h.Before.Last.Row))
	binary.BigEndian.PutUint64(b[56:], uint64(h.Last.Row))
	binary.BigEndian.PutUint64(b[64:], uint64(h.Earliest))
	binary.BigEndian.PutUint64(b[72:], uint64(h.Latest))
	copy(b[80:], h.Before.Digest[:])
	copy(b[112:], h.RowsHash[:])
	binary.BigEndian.PutUint64(b[144:], h.RowsBytes)
	binary.BigEndian.PutUint64(b[152:], h.Compressed)
	binary.BigEndian.PutUint32(b[160:], crc32.Checksum(b[:checkedUpTo], castagnoli))
	return b
}

// decodeHeader reads a header and checks all that it alone can show.
func decodeHeader(b *[HeaderBytes]byte) (h Header, err error) {
	if !bytes.Equal(b[:8], magic) {
		return h, damaged("it does not begin as one")
	}
	if v := binary.BigEndian.Uint16(b[8:]); v > version {
		return h, fmt.Errorf("%w: format %d, this release reads formats up to %d", ErrVersion, v, version)
	}
	if binary.BigEndian.Uint32(b[160:]) != crc32.Checksum(b[:checkedUpTo], castagnoli) {
		return h, damaged("the header does not match its checksum")
	}
	first, last := binary.BigEndian.Uint64(b[32:]), binary.BigEndian.Uint64(b[40:])
	if first == 0 || last < first || last-first >= MaxRows {
		return h, damaged("it claims rows %d to %d", first, last)
	}
	copy(h.Cluster[:], b[16:])
	h.Before.Last = commands.Position{Index: commands.Index(first - 1), Row: commands.RowID(binary.BigEndian.Uint64(b[48:]))}
	h.Last = commands.Position{Index: commands.Index(last), Row: commands.RowID(binary.BigEndian.Uint64(b[56:]))}
	h.Earliest, h.Latest = stream.Time(binary.BigEndian.Uint64(b[64:])), stream.Time(binary.BigEndian.Uint64(b[72:]))
	copy(h.Before.Digest[:], b[80:])
	copy(h.RowsHash[:], b[112:])
	h.RowsBytes, h.Compressed = binary.BigEndian.Uint64(b[144:]), binary.BigEndian.Uint64(b[152:])
	if h.RowsBytes > MaxBytes || h.RowsBytes < uint64(h.Rows())*minRowBytes || h.Compressed > 2*MaxBytes {
		return h, damaged("it claims %d bytes of %d rows", h.RowsBytes, h.Rows())
	}
	if h.encode() != *b { // what is not checked above must be as written
		return h, damaged("the header has fields that format %d has not", version)
	}
	if (h.First() == 1) != (h.Before == Link{}) {
		return h, damaged("it begins with row %d and names %v before it", first, h.Before.Last)
	}
	return h, nil
}
