package commands

import (
	"encoding/binary"
	"math"

	"github.com/picomq/picomq/stream"
)

// Swap lets extents point to where compaction has copied their records: into
// the packed segment in Slot, which is the Sequence-th of its origin's node and
// epoch.
//
// A run is consecutive records of one stream that lie end to end in the packed
// segment; its pieces are the extents, in order, that it stands for. It is
// applied whole or not at all: only if each piece is an extent of the stream
// still, less what was trimmed away in front.
//
// The runs are columns of varints, one value per run unless noted, so that a
// run of one piece costs about ten bytes.
//
//	IDs        zigzag, difference to the run before (the first to 0)
//	Firsts     offset of the first record
//	Ordinals   zigzag, of the first record in the packed segment, difference to
//	           the end of the run before (the first to 0)
//	Bytes      that the run takes in the packed segment
//	Lengths    pieces, at least 1
//	Slots      per piece: zigzag, difference to the piece before (the first to 0)
//	Froms      per piece: ordinal of its first record in its segment
//	Counts     per piece: twice its records, and 1 more if it is cut
type Swap struct {
	Slot     uint32
	Sequence uint64
	Count    uint32 // runs
	IDs      []byte
	Firsts   []byte
	Ordinals []byte
	Bytes    []byte
	Lengths  []byte
	Slots    []byte
	Froms    []byte
	Counts   []byte
}

// Bounds of one Swap.
const (
	MaxRuns   = 1 << 13
	MaxPieces = 1 << 16
)

// Run is one run of a Swap.
type Run struct {
	ID      stream.ID
	First   stream.Offset
	Ordinal uint32
	Bytes   uint32
	Pieces  []Piece
}

// Records is the number of records of the run.
func (r *Run) Records() uint64 {
	n := uint64(0)
	for i := range r.Pieces {
		n += uint64(r.Pieces[i].Count)
	}
	return n
}

// Piece is an extent that a run stands for.
type Piece struct {
	Slot    uint32
	Ordinal uint32
	Count   uint32 // records, at least 1
	// Cut says that the extent is a part of one record. The packed segment has that
	// part as a record.
	Cut bool
}

// Kind implements Command.
func (*Swap) Kind() Kind { return KindSwap }

// NewSwap lays runs out in columns.
func NewSwap(slot uint32, sequence uint64, runs []Run) *Swap {
	m := &Swap{Slot: slot, Sequence: sequence, Count: uint32(len(runs))}
	var id, ordinal, from int64
	for i := range runs {
		r := &runs[i]
		m.IDs = binary.AppendVarint(m.IDs, int64(r.ID)-id)
		m.Firsts = binary.AppendUvarint(m.Firsts, uint64(r.First))
		m.Ordinals = binary.AppendVarint(m.Ordinals, int64(r.Ordinal)-ordinal)
		m.Bytes = binary.AppendUvarint(m.Bytes, uint64(r.Bytes))
		m.Lengths = binary.AppendUvarint(m.Lengths, uint64(len(r.Pieces)))
		id, ordinal = int64(r.ID), int64(r.Ordinal)+int64(r.Records())
		for _, p := range r.Pieces {
			m.Slots = binary.AppendVarint(m.Slots, int64(p.Slot)-from)
			m.Froms = binary.AppendUvarint(m.Froms, uint64(p.Ordinal))
			m.Counts = binary.AppendUvarint(m.Counts, uint64(p.Count)<<1|cutBit(p.Cut))
			from = int64(p.Slot)
		}
	}
	return m
}

func cutBit(cut bool) uint64 {
	if cut {
		return 1
	}
	return 0
}

// RunIter walks the runs of a Swap.
type RunIter struct {
	swap              Swap // columns cut as they are read
	read              uint32
	id, ordinal, from int64
	pieces            []Piece
	err               error
}

// Runs walks the runs in order.
func (m *Swap) Runs() RunIter { return RunIter{swap: *m} }

// Next puts the next run into r and reports whether there was one. The pieces
// are valid until the next call. A command that was decoded has been walked
// before: it never ends early.
func (it *RunIter) Next(r *Run) bool {
	c := &it.swap
	if it.err != nil || it.read == c.Count {
		return false
	}
	it.read++
	it.id += it.varint(&c.IDs)
	first := it.uvarint(&c.Firsts)
	it.ordinal += it.varint(&c.Ordinals)
	*r = Run{
		ID: stream.ID(it.id), First: stream.Offset(first), Ordinal: it.narrow(uint64(it.ordinal)),
		Bytes: it.narrow(it.uvarint(&c.Bytes)),
	}
	n := it.uvarint(&c.Lengths)
	if n == 0 || n > MaxPieces || n > uint64(len(c.Counts)) {
		it.err = errColumns
	}
	it.pieces = it.pieces[:0]
	for ; n > 0 && it.err == nil; n-- {
		it.from += it.varint(&c.Slots)
		p := Piece{Slot: it.narrow(uint64(it.from)), Ordinal: it.narrow(it.uvarint(&c.Froms))}
		count := it.uvarint(&c.Counts)
		p.Count, p.Cut = it.narrow(count>>1), count&1 != 0
		if p.Count == 0 || (p.Cut && p.Count > 1) {
			it.err = errColumns
		}
		it.pieces = append(it.pieces, p)
	}
	r.Pieces = it.pieces
	records := r.Records()
	if first > uint64(stream.MaxOffset) || records > MaxSegmentRecords || uint64(r.Ordinal)+records > MaxSegmentRecords {
		it.err = errColumns
	}
	it.ordinal += int64(records)
	return it.err == nil
}

func (it *RunIter) uvarint(column *[]byte) uint64 {
	v, n := binary.Uvarint(*column)
	return it.cut(column, v, n)
}

func (it *RunIter) varint(column *[]byte) int64 {
	v, n := binary.Varint(*column)
	return int64(it.cut(column, uint64(v), n))
}

// cut takes n bytes that were read as v off a column.
func (it *RunIter) cut(column *[]byte, v uint64, n int) uint64 {
	if n <= 0 || it.err != nil {
		it.err = errColumns
		return 0
	}
	*column = (*column)[n:]
	return v
}

func (it *RunIter) narrow(v uint64) uint32 {
	if v > math.MaxUint32 {
		it.err = errColumns
	}
	return uint32(v)
}

// check walks all columns once: after it, Runs cannot fail.
func (m *Swap) check() error {
	if m.Count > MaxRuns {
		return errColumns
	}
	it := m.Runs()
	var r Run
	pieces := 0
	for it.Next(&r) {
		if pieces += len(r.Pieces); pieces > MaxPieces {
			return errColumns
		}
	}
	c := &it.swap
	left := len(c.IDs) + len(c.Firsts) + len(c.Ordinals) + len(c.Bytes) + len(c.Lengths) + len(c.Slots) + len(c.Froms) + len(c.Counts)
	if it.err != nil || left != 0 {
		return errColumns
	}
	return nil
}
