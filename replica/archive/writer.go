package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

const (
	// FullBytes of payload make an object full.
	FullBytes = 16 << 20
	// FullTime between the database times of its first and its last row does too.
	FullTime = time.Hour

	// windowBytes is how far back the compressor looks, and so what the reader
	// must remember.
	windowBytes = 1 << 20
)

// Writer makes one object in memory, which takes about what the object does.
// It is for one goroutine.
type Writer struct {
	header  Header
	begun   stream.Time // database time of the first row
	time    stream.Time // and of the last
	payload int         // bytes of payload
	size    int         // bytes of rows, uncompressed
	hash    hash.Hash
	object  bytes.Buffer // room for the header, then the compressed rows
	encoder *zstd.Encoder
	scratch []byte
}

// NewWriter begins the object that follows a place.
func NewWriter(cluster commands.ClusterID, before Link) (*Writer, error) {
	w := &Writer{hash: sha256.New(), header: Header{Cluster: cluster, Before: before, Last: before.Last}}
	w.object.Write(make([]byte, HeaderBytes))
	var err error
	w.encoder, err = zstd.NewWriter(&w.object, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowBytes))
	if err != nil {
		return nil, fmt.Errorf("begin an archive object: %w", err)
	}
	return w, nil
}

// Fits tells whether a row belongs into this object by its bounds. The first
// always does.
func (w *Writer) Fits(row commands.Row) bool {
	if w.header.Rows() == 0 {
		return true
	}
	age := time.Duration(row.DatabaseTime-w.begun) * time.Millisecond
	return w.header.Rows() < MaxRows && age <= FullTime &&
		w.payload+len(row.Payload) <= FullBytes && w.size+encodedAtMost(row) <= MaxBytes
}

// encodedAtMost is more than a row takes.
func encodedAtMost(row commands.Row) int { return 128 + len(row.Summary.Kinds) + len(row.Payload) }

// Last is the place of the last row added.
func (w *Writer) Last() commands.Position { return w.header.Last }

// Add takes the row that follows. An error leaves the object as it was, or, of
// the compressor, unusable.
func (w *Writer) Add(row commands.Row) error {
	switch {
	case row.Index != w.header.Last.Index+1 || row.Previous != w.header.Last.Row || row.ID == 0:
		return fmt.Errorf("archive row %v, which follows row id %016x: the last one is %v", row.Position(), uint64(row.Previous), w.header.Last)
	case len(row.Payload) == 0 || len(row.Payload) > commands.MaxPayload || len(row.Summary.Kinds) > maxKinds:
		return fmt.Errorf("archive row %v: it has %d bytes of payload", row.Position(), len(row.Payload))
	case row.Summary.Commands < 0 || row.Summary.Appends < 0:
		return fmt.Errorf("archive row %v: it counts %+v", row.Position(), row.Summary)
	case w.header.Rows() == MaxRows || w.size+encodedAtMost(row) > MaxBytes:
		return fmt.Errorf("archive row %v: the object has %d rows and %d bytes and may not have more", row.Position(), w.header.Rows(), w.size)
	}
	if w.header.Rows() == 0 {
		w.begun, w.header.Earliest, w.header.Latest = row.DatabaseTime, row.DatabaseTime, row.DatabaseTime
	}
	w.scratch = appendRow(w.scratch[:0], row, w.time)
	if _, err := w.encoder.Write(w.scratch); err != nil {
		return fmt.Errorf("archive row %v: compress: %w", row.Position(), err)
	}
	w.hash.Write(w.scratch) // never fails
	w.size += len(w.scratch)
	w.payload += len(row.Payload)
	w.header.Last, w.time = row.Position(), row.DatabaseTime
	w.header.Earliest, w.header.Latest = min(w.header.Earliest, row.DatabaseTime), max(w.header.Latest, row.DatabaseTime)
	return nil
}

// appendRow encodes a row without what follows from its place.
func appendRow(b []byte, row commands.Row, before stream.Time) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(row.ID))
	b = binary.AppendVarint(b, int64(row.DatabaseTime-before))
	b = binary.AppendUvarint(b, uint64(row.Origin.Node))
	b = binary.AppendUvarint(b, uint64(row.Origin.Epoch))
	b = binary.AppendUvarint(b, row.Origin.Seq)
	b = binary.AppendUvarint(b, uint64(row.Summary.Commands))
	b = binary.AppendUvarint(b, uint64(row.Summary.Appends))
	b = binary.AppendUvarint(b, uint64(len(row.Summary.Kinds)))
	b = append(b, row.Summary.Kinds...)
	b = binary.AppendUvarint(b, uint64(len(row.Payload)))
	return append(b, row.Payload...)
}

// Object is a finished object.
type Object struct {
	Header
	Bytes []byte
}

// Seal finishes the object, which has at least one row. The writer is of no
// use afterwards.
func (w *Writer) Seal() (Object, error) {
	if w.header.Rows() == 0 {
		return Object{}, fmt.Errorf("seal the archive object after %v: it has no rows", w.header.Last)
	}
	if err := w.encoder.Close(); err != nil {
		return Object{}, fmt.Errorf("seal the archive object after %v: %w", w.header.Before.Last, err)
	}
	w.hash.Sum(w.header.RowsHash[:0])
	w.header.RowsBytes, w.header.Compressed = uint64(w.size), uint64(w.object.Len()-HeaderBytes)
	encoded := w.header.encode()
	object := w.object.Bytes()
	copy(object, encoded[:])
	return Object{Header: w.header, Bytes: object}, nil
}
