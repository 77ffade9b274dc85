package archive

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// maxKinds bounds the text that says what a row holds, in bytes.
const maxKinds = 16 << 10

// Reader reads one object from its beginning to its end. It is for one
// goroutine.
type Reader struct {
	header  Header
	source  *source           // the object; nothing may follow the rows
	limited *io.LimitedReader // its compressed rows
	decoder *zstd.Decoder
	rows    *bufio.Reader // uncompressed, hashed on the way
	hash    hash.Hash
	closers []func() error

	last             commands.Position
	time             stream.Time
	earliest, latest stream.Time
	read             uint64 // bytes of rows
	err              error  // what Next answers from now on
}

// NewReader reads and checks an object's header. The reader must be closed;
// that does not close r.
func NewReader(r io.Reader) (*Reader, error) {
	var encoded [HeaderBytes]byte
	from := &source{r: r}
	if _, err := io.ReadFull(from, encoded[:]); err != nil {
		return nil, from.fault(err)
	}
	header, err := decodeHeader(&encoded)
	if err != nil {
		return nil, err
	}
	o := &Reader{
		header: header, source: from, limited: &io.LimitedReader{R: from, N: int64(header.Compressed)}, hash: sha256.New(),
		last: header.Before.Last, earliest: math.MaxInt64, latest: math.MinInt64,
	}
	// One goroutine, and no more memory than the window that the format uses.
	o.decoder, err = zstd.NewReader(o.limited, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxBytes), zstd.WithDecoderMaxWindow(8*windowBytes))
	if err != nil {
		return nil, fmt.Errorf("read an archive object: %w", err)
	}
	o.rows = bufio.NewReaderSize(io.TeeReader(o.decoder, o.hash), 64<<10)
	return o, nil
}

// Header is what the object says about itself.
func (o *Reader) Header() Header { return o.header }

// Close gives up what the reader holds.
func (o *Reader) Close() error {
	o.decoder.Close()
	var errs []error
	for _, f := range o.closers {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// Next is the next row, or io.EOF when all were read and the object is what it
// claims. Other errors stay.
func (o *Reader) Next() (commands.Row, error) {
	if o.err != nil {
		return commands.Row{}, o.err
	}
	var row commands.Row
	if o.last.Index == o.header.Last.Index {
		o.err = o.finish()
		return row, o.err
	}
	row, o.err = o.next()
	return row, o.err
}

func (o *Reader) next() (row commands.Row, err error) {
	row.Index, row.Previous = o.last.Index+1, o.last.Row
	id := o.fixed(&err)
	time := o.time + stream.Time(o.signed(&err))
	node, epoch, seq := o.unsigned(&err, math.MaxUint32), o.unsigned(&err, math.MaxUint64), o.unsigned(&err, math.MaxUint64)
	count, appends := o.unsigned(&err, math.MaxInt32), o.unsigned(&err, math.MaxInt32)
	kinds := o.bytes(&err, maxKinds)
	row.Payload = o.bytes(&err, commands.MaxPayload)
	if err != nil {
		return commands.Row{}, fmt.Errorf("row %d: %w", row.Index, err)
	}
	row.ID, row.DatabaseTime = commands.RowID(id), time
	row.Origin = commands.Origin{Node: commands.NodeID(node), Epoch: commands.Epoch(epoch), Seq: seq}
	row.Summary = commands.Summary{Kinds: string(kinds), Commands: int(count), Appends: int(appends)}
	if row.ID == 0 || len(row.Payload) == 0 {
		return commands.Row{}, damaged("row %d has no id or no payload", row.Index)
	}
	o.last, o.time = row.Position(), time
	o.earliest, o.latest = min(o.earliest, time), max(o.latest, time)
	return row, nil
}

// finish checks, after the last row, everything that the header claims.
func (o *Reader) finish() error {
	if _, err := o.rows.ReadByte(); !errors.Is(err, io.EOF) {
		if err == nil {
			return damaged("more rows follow the last")
		}
		return o.source.fault(err)
	}
	var hash [sha256.Size]byte
	o.hash.Sum(hash[:0])
	switch {
	case o.read != o.header.RowsBytes || hash != o.header.RowsHash:
		return damaged("its rows do not match their hash")
	case o.last != o.header.Last:
		return damaged("its last row is %v, the header names %v", o.last, o.header.Last)
	case o.earliest != o.header.Earliest || o.latest != o.header.Latest:
		return damaged("its rows have other times than the header names")
	case o.limited.N != 0:
		return damaged("its compressed rows end %d bytes early", o.limited.N)
	}
	if n, err := io.CopyN(io.Discard, o.source, 1); n != 0 || !errors.Is(err, io.EOF) {
		if n == 0 {
			return o.source.fault(err)
		}
		return damaged("bytes follow its rows")
	}
	return io.EOF
}

// take counts bytes that are about to be read, and refuses more than the header
// claims before memory is taken for them.
func (o *Reader) take(n uint64) error {
	if o.read += n; o.read > o.header.RowsBytes {
		return damaged("its rows are longer than the header names")
	}
	return nil
}

// readByte is for the varints.
func (o *Reader) readByte() (byte, error) {
	if err := o.take(1); err != nil {
		return 0, err
	}
	return o.rows.ReadByte()
}

type byteReader func() (byte, error)

func (f byteReader) ReadByte() (byte, error) { return f() }

// The following read one value unless there was an error before, so that a row
// reads like its table.

func (o *Reader) fixed(err *error) uint64 {
	var b [8]byte
	if *err == nil {
		*err = o.take(8)
	}
	if *err == nil {
		_, e := io.ReadFull(o.rows, b[:])
		*err = o.source.fault(e)
	}
	return binary.BigEndian.Uint64(b[:])
}

func (o *Reader) unsigned(err *error, most uint64) (v uint64) {
	if *err == nil {
		var e error
		v, e = binary.ReadUvarint(byteReader(o.readByte))
		*err = o.source.fault(e)
	}
	if *err == nil && v > most {
		*err = damaged("a number is %d and may be %d", v, most)
	}
	return v
}

func (o *Reader) signed(err *error) (v int64) {
	if *err == nil {
		var e error
		v, e = binary.ReadVarint(byteReader(o.readByte))
		*err = o.source.fault(e)
	}
	return v
}

func (o *Reader) bytes(err *error, most uint64) []byte {
	n := o.unsigned(err, most)
	if *err == nil {
		*err = o.take(n)
	}
	if *err != nil {
		return nil
	}
	b := make([]byte, n)
	_, e := io.ReadFull(o.rows, b)
	*err = o.source.fault(e)
	return b
}

// source is the object as it comes, which remembers why it stopped coming.
type source struct {
	r   io.Reader
	err error
}

// Read reads on.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// fault tells errors of where the object comes from, which stay as they are,
// from those of what came.
func (s *source) fault(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrDamaged):
		return err
	case s.err != nil:
		return s.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return damaged("it ends early")
	default:
		return damaged("its rows cannot be read: %v", err)
	}
}
