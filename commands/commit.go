package commands

import (
	"encoding/binary"
	"errors"

	"github.com/picomq/picomq/stream"
)

// CommitSegment makes the records of one uploaded segment part of their
// streams. The segment is the Sequence-th of its origin's node and epoch.
//
// The appends are columns, one value per append in the order in which their
// records lie in the segment, so that an append costs about ten bytes and its
// place follows from those before it: its first record's ordinal in the
// segment is the sum of the record counts before it.
//
//	column     value per append
//	IDs        zigzag varint, difference to the previous append's stream id
//	           (the first to 0); an append with a create takes no part
//	Records    varint, number of records, at least 1
//	Bytes      varint, bytes the append takes in its blocks
//	Flags      one byte: 1 closes, 2 producer, 4 match, 8 stream-seq, 16 create
//	Producers  per append with flag 2: varints index into ProducerIDs, epoch, sequence
//	Matches    per append with flag 4: varint offset
//	StreamSeqs per append with flag 8: varint length, bytes
//
// An append with flag 16 belongs to the next of Creates: the stream is created
// with these records, or the append is refused as that create is.
type CommitSegment struct {
	Sequence    uint64
	Size        uint64 // bytes of the object
	Count       uint32 // appends
	IDs         []byte
	Records     []byte
	Bytes       []byte
	Flags       []byte
	Producers   []byte
	Matches     []byte
	StreamSeqs  []byte
	ProducerIDs []string
	Creates     []Create
	// GivenUp are sequences whose upload was abandoned: a commit of one of them
	// is refused from here on. Ascending, at most MaxGivenUp.
	GivenUp []uint64
}

// Bounds of one CommitSegment.
const (
	MaxAppends = 1 << 16
	MaxGivenUp = 1 << 12
)

const (
	flagClose = 1 << iota
	flagProducer
	flagMatch
	flagStreamSeq
	flagCreate
	knownFlags = 1<<iota - 1
)

// Append is one append of a CommitSegment.
type Append struct {
	ID           stream.ID // zero when Create is set
	Create       *Create
	Records      uint32
	Bytes        uint64
	Close        bool
	HasProducer  bool
	Producer     stream.Producer
	HasMatch     bool
	Match        stream.Offset
	HasStreamSeq bool
	StreamSeq    []byte // valid until the command is dropped
}

// NewCommitSegment lays appends out in columns.
func NewCommitSegment(sequence, size uint64, appends []Append, givenUp []uint64) *CommitSegment {
	c := &CommitSegment{Sequence: sequence, Size: size, Count: uint32(len(appends)), GivenUp: givenUp}
	if n := len(appends); n > 0 {
		// One array for what most appends take of the columns that all have.
		columns := make([]byte, 5*n)
		c.Flags, c.Records, c.Bytes = columns[:0:n], columns[n:n:2*n], columns[2*n:2*n:5*n]
	}
	var producers map[string]uint64 // places in ProducerIDs
	var previous int64
	for i := range appends {
		a := &appends[i]
		var flags byte
		if a.Create != nil {
			flags |= flagCreate
			c.Creates = append(c.Creates, *a.Create)
		} else {
			c.IDs = binary.AppendVarint(c.IDs, int64(a.ID)-previous)
			previous = int64(a.ID)
		}
		c.Records = binary.AppendUvarint(c.Records, uint64(a.Records))
		c.Bytes = binary.AppendUvarint(c.Bytes, a.Bytes)
		if a.Close {
			flags |= flagClose
		}
		if a.HasProducer {
			flags |= flagProducer
			index, ok := producers[a.Producer.ID]
			if !ok {
				if producers == nil {
					producers = make(map[string]uint64)
				}
				index = uint64(len(c.ProducerIDs))
				producers[a.Producer.ID] = index
				c.ProducerIDs = append(c.ProducerIDs, a.Producer.ID)
			}
			c.Producers = binary.AppendUvarint(c.Producers, index)
			c.Producers = binary.AppendUvarint(c.Producers, a.Producer.Epoch)
			c.Producers = binary.AppendUvarint(c.Producers, a.Producer.Seq)
		}
		if a.HasMatch {
			flags |= flagMatch
			c.Matches = binary.AppendUvarint(c.Matches, uint64(a.Match))
		}
		if a.HasStreamSeq {
			flags |= flagStreamSeq
			c.StreamSeqs = binary.AppendUvarint(c.StreamSeqs, uint64(len(a.StreamSeq)))
			c.StreamSeqs = append(c.StreamSeqs, a.StreamSeq...)
		}
		c.Flags = append(c.Flags, flags)
	}
	return c
}

// AppendIter walks the appends of a CommitSegment. It allocates nothing.
type AppendIter struct {
	commit  CommitSegment // columns cut as they are read
	read    uint32
	creates int
	id      int64
	err     error
}

// Appends walks the appends in order.
func (m *CommitSegment) Appends() AppendIter { return AppendIter{commit: *m} }

var errColumns = errors.New("the columns of a command do not fit together")

// Next puts the next append into a and reports whether there was one. A
// command that was decoded has been walked before: it never ends early.
func (it *AppendIter) Next(a *Append) bool {
	c := &it.commit
	if it.err != nil || it.read == c.Count {
		return false
	}
	it.read++
	*a = Append{}
	flags := c.Flags[0]
	c.Flags = c.Flags[1:]
	if flags&^byte(knownFlags) != 0 {
		it.err = errColumns
		return false
	}
	if flags&flagCreate != 0 {
		if it.creates == len(c.Creates) {
			it.err = errColumns
			return false
		}
		a.Create = &c.Creates[it.creates]
		it.creates++
	} else {
		delta, n := binary.Varint(c.IDs)
		if n <= 0 {
			it.err = errColumns
			return false
		}
		c.IDs = c.IDs[n:]
		it.id += delta
		a.ID = stream.ID(it.id)
	}
	records := it.uvarint(&c.Records)
	if records == 0 || records > 1<<32-1 {
		it.err = errColumns
	}
	a.Records = uint32(records)
	a.Bytes = it.uvarint(&c.Bytes)
	a.Close = flags&flagClose != 0
	if flags&flagProducer != 0 {
		index := it.uvarint(&c.Producers)
		epoch := it.uvarint(&c.Producers)
		seq := it.uvarint(&c.Producers)
		if index >= uint64(len(c.ProducerIDs)) {
			it.err = errColumns
			return false
		}
		a.HasProducer = true
		a.Producer = stream.Producer{ID: c.ProducerIDs[index], Epoch: epoch, Seq: seq}
	}
	if flags&flagMatch != 0 {
		a.HasMatch = true
		a.Match = stream.Offset(it.uvarint(&c.Matches))
	}
	if flags&flagStreamSeq != 0 {
		n := it.uvarint(&c.StreamSeqs)
		if n > uint64(len(c.StreamSeqs)) {
			it.err = errColumns
			return false
		}
		a.HasStreamSeq = true
		a.StreamSeq = c.StreamSeqs[:n:n]
		c.StreamSeqs = c.StreamSeqs[n:]
	}
	return it.err == nil
}

func (it *AppendIter) uvarint(column *[]byte) uint64 {
	v, n := binary.Uvarint(*column)
	if n <= 0 {
		it.err = errColumns
		return 0
	}
	*column = (*column)[n:]
	return v
}

// MaxSegmentRecords bounds the records of one segment.
const MaxSegmentRecords = 1<<30 - 1

// check walks all columns once: after it, Appends cannot fail.
func (m *CommitSegment) check() error {
	if m.Count > MaxAppends || len(m.Flags) != int(m.Count) || len(m.GivenUp) > MaxGivenUp {
		return errColumns
	}
	it := m.Appends()
	var a Append
	var records, bytes uint64
	for it.Next(&a) {
		records += uint64(a.Records)
		if records > MaxSegmentRecords || a.Bytes > m.Size-bytes {
			return errColumns
		}
		bytes += a.Bytes
	}
	rest := &it.commit
	left := len(rest.IDs) + len(rest.Records) + len(rest.Bytes) + len(rest.Producers) + len(rest.Matches) + len(rest.StreamSeqs)
	if it.err != nil || left != 0 || it.creates != len(m.Creates) {
		return errColumns
	}
	return nil
}
