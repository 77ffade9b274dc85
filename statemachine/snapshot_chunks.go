package statemachine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
)

// snapshotMagic begins a snapshot; its last byte is the version of the format.
const snapshotMagic = "PICOSNP\x01"

// The kinds of chunk, in the order in which they come. Segments and streams
// take as many chunks as they need, the others one.
const (
	chunkScalars byte = 1 + iota
	chunkNodes
	chunkCheckpoints
	chunkSegments
	chunkStreams
	chunkEnd
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A chunk is kind (1 byte), length of the payload (4), payload, CRC32C of all
// that (4); integers little endian.
const (
	chunkHead = 5
	chunkTail = 4
	// chunkStep bounds how far a reader allocates ahead of what it has read.
	chunkStep = 1 << 20
)

// chunkWriter writes chunks, each in one Write. The first error stays.
type chunkWriter struct {
	w   io.Writer
	buf []byte
	err error
}

func (e *chunkWriter) magic() {
	_, e.err = io.WriteString(e.w, snapshotMagic)
}

func (e *chunkWriter) chunk(kind byte, code func(*codec)) {
	if e.err != nil {
		return
	}
	c := &codec{buf: append(e.buf[:0], kind, 0, 0, 0, 0)}
	code(c)
	length := uint64(len(c.buf) - chunkHead)
	if length > 1<<32-1 {
		e.err = fmt.Errorf("a snapshot chunk of %d bytes does not fit its length field", length)
		return
	}
	binary.LittleEndian.PutUint32(c.buf[1:], uint32(length))
	e.buf = binary.LittleEndian.AppendUint32(c.buf, crc32.Checksum(c.buf, castagnoli))
	if _, err := e.w.Write(e.buf); err != nil {
		e.err = fmt.Errorf("write snapshot: %w", err)
	}
	runtime.Gosched() // apply goes first where they share a processor
}

// chunkReader reads chunks, one ahead.
type chunkReader struct {
	r       io.Reader
	buf     bytes.Buffer
	kind    byte
	payload []byte // valid until the next advance
}

func (d *chunkReader) magic() error {
	var magic [len(snapshotMagic)]byte
	if _, err := io.ReadFull(d.r, magic[:]); err != nil {
		return fmt.Errorf("read the head of the snapshot: %w", err)
	}
	const version = len(snapshotMagic) - 1
	if string(magic[:version]) != snapshotMagic[:version] {
		return errors.New("not a snapshot: it does not begin with the magic")
	}
	if magic[version] != snapshotMagic[version] {
		return fmt.Errorf("snapshot format %d is not known to this binary, which reads format %d: run a newer release",
			magic[version], snapshotMagic[version])
	}
	return nil
}

// advance reads the next chunk and checks it.
func (d *chunkReader) advance() error {
	d.buf.Reset()
	if err := d.read(chunkHead); err != nil {
		return err
	}
	length := uint64(binary.LittleEndian.Uint32(d.buf.Bytes()[1:]))
	if err := d.read(length + chunkTail); err != nil {
		return err
	}
	all := d.buf.Bytes()
	end := len(all) - chunkTail
	if crc32.Checksum(all[:end], castagnoli) != binary.LittleEndian.Uint32(all[end:]) {
		return errors.New("a snapshot chunk does not match its checksum")
	}
	d.kind, d.payload = all[0], all[chunkHead:end]
	return nil
}

// read adds n bytes to the buffer, which grows with what is really there.
func (d *chunkReader) read(n uint64) error {
	for n > 0 {
		step := min(n, chunkStep)
		d.buf.Grow(int(step))
		if _, err := io.CopyN(&d.buf, d.r, int64(step)); err != nil {
			return fmt.Errorf("read a snapshot chunk: %w", unexpected(err))
		}
		n -= step
	}
	return nil
}

// unexpected is err, with an end of file in the middle named as such.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// end checks that nothing follows.
func (d *chunkReader) end() error {
	var one [1]byte
	if n, err := io.ReadFull(d.r, one[:]); n > 0 || !errors.Is(err, io.EOF) {
		if err != nil {
			return fmt.Errorf("read behind the snapshot: %w", err)
		}
		return errors.New("bytes follow the end of the snapshot")
	}
	return nil
}

// decode reads the chunk's payload, all of it.
func (d *chunkReader) decode(code func(*codec)) error {
	c := &codec{buf: d.payload, reading: true}
	code(c)
	if c.err == nil && len(c.buf) > 0 {
		c.fail("%d bytes follow the items of a chunk", len(c.buf))
	}
	return c.err
}
