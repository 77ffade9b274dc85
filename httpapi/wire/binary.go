package wire

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/picomq/picomq/stream"
)

// binaryVersion is the first byte of every binary batch.
const binaryVersion = 1

// The fewest bytes that one of each takes in a binary batch: they bound the
// counts that a decoder believes.
const (
	minHeaderBytes     = 4 + 4
	minRecordBytes     = 4 + 4
	minReadRecordBytes = 8 + 8 + minRecordBytes
)

// MaxAmplification bounds what a decoder of this package allocates, in bytes
// per byte of its input: the slice that holds the smallest record is this many
// times larger than the record on the wire.
const MaxAmplification = 24

// ReadRecord is a record as the read formats carry it.
type ReadRecord struct {
	Seq  stream.Offset
	Time stream.Time
	stream.Record
}

// EncodeBinaryAppend appends a binary batch of records. Lengths and counts
// must fit 32 bits; servers accept far less.
func EncodeBinaryAppend(dst []byte, records []stream.Record) []byte {
	dst = append(dst, binaryVersion)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(records)))
	for i := range records {
		dst = appendRecord(dst, records[i].Headers, records[i].Body)
	}
	return dst
}

// DecodeBinaryAppend reads a binary batch of 1 to [stream.MaxRecords] records.
// Bodies share the memory of data. It asks reserve before it takes memory.
func DecodeBinaryAppend(data []byte, reserve Reserve) ([]stream.Record, error) {
	d := binaryDecoder{rest: data}
	n := int(d.begin(minRecordBytes))
	if d.err == nil {
		if err := checkCount(n); err != nil {
			return nil, err
		}
	}
	headers, text, err := d.measure(n)
	if err != nil {
		return nil, err
	}
	if err := reserve.batch(n, headers, text); err != nil {
		return nil, err
	}
	records, free := make([]stream.Record, n), make([]stream.Header, headers)
	for i := range records {
		count := d.count(minHeaderBytes, "headers")
		records[i].Headers, free = d.headers(free[:count:count]), free[count:]
		records[i].Body = d.bytes("a body")
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return records, nil
}

// EncodeBinaryRead appends the binary read batch of the runs' records.
func EncodeBinaryRead(dst []byte, runs []stream.Run) []byte {
	dst = append(dst, binaryVersion)
	dst = binary.BigEndian.AppendUint32(dst, uint32(countRecords(runs)))
	for r := range runs {
		run := &runs[r]
		for i := range run.Len() {
			dst = binary.BigEndian.AppendUint64(dst, uint64(run.First)+uint64(i))
			dst = binary.BigEndian.AppendUint64(dst, uint64(run.Time))
			dst = appendRecord(dst, run.HeadersOf(i), run.Body(i))
		}
	}
	return dst
}

// DecodeBinaryRead reads a binary read batch. Bodies share the memory of data.
func DecodeBinaryRead(data []byte) ([]ReadRecord, error) {
	d := binaryDecoder{rest: data}
	records := make([]ReadRecord, d.begin(minReadRecordBytes))
	for i := range records {
		records[i].Seq = stream.Offset(d.uint64("sequence"))
		records[i].Time = stream.Time(d.uint64("timestamp"))
		d.record(&records[i].Record)
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return records, nil
}

func appendRecord(dst []byte, headers []stream.Header, body []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(headers)))
	for _, h := range headers {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(h.Name)))
		dst = append(dst, h.Name...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(h.Value)))
		dst = append(dst, h.Value...)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	return append(dst, body...)
}

func countRecords(runs []stream.Run) int {
	n := 0
	for i := range runs {
		n += runs[i].Len()
	}
	return n
}

// binaryDecoder takes fields off the front of a batch. After its first error
// every field is empty and every count zero, so callers check once at the end.
type binaryDecoder struct {
	rest []byte
	done int // bytes taken, for messages
	err  error
}

func (d *binaryDecoder) fail(format string, args ...any) {
	if d.err == nil {
		args = append([]any{d.done}, args...)
		d.err = stream.Errorf(stream.CodeBadRequest, "the binary batch is malformed at byte %d: "+format, args...)
	}
	d.rest = nil
}

// take is the next n bytes; what they are is for the message if they are not
// there, and put together only then.
func (d *binaryDecoder) take(n uint64, kind, what string) []byte {
	if n > uint64(len(d.rest)) {
		d.fail("%s%s takes %d bytes where %d remain", kind, what, n, len(d.rest))
		return nil
	}
	taken := d.rest[:n:n]
	d.rest = d.rest[n:]
	d.done += len(taken)
	return taken
}

func (d *binaryDecoder) uint32(kind, what string) uint32 {
	if b := d.take(4, kind, what); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *binaryDecoder) uint64(what string) uint64 {
	if b := d.take(8, "a ", what); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// count reads how many items of at least size bytes follow, and refuses more
// than the remaining bytes can hold.
func (d *binaryDecoder) count(size uint64, what string) uint32 {
	n := d.uint32("the number of ", what)
	if uint64(n) > uint64(len(d.rest))/size {
		d.fail("%d %s do not fit in the %d bytes that remain", n, what, len(d.rest))
		return 0
	}
	return n
}

func (d *binaryDecoder) bytes(what string) []byte {
	return d.take(uint64(d.uint32("the length of ", what)), "", what)
}

func (d *binaryDecoder) text(what string) string {
	b := d.bytes(what)
	if !utf8.Valid(b) {
		d.fail("%s is not UTF-8", what)
		return ""
	}
	return string(b)
}

// begin reads the version and the number of records.
func (d *binaryDecoder) begin(recordSize uint64) uint32 {
	if v := d.take(1, "the ", "version"); v != nil && v[0] != binaryVersion {
		d.fail("version %d is not known; this is version %d", v[0], binaryVersion)
	}
	return d.count(recordSize, "records")
}

// measure counts the headers of the n records that follow, and the bytes of
// their names and values. It takes nothing off the batch and no memory.
func (d binaryDecoder) measure(n int) (headers, text int, err error) {
	for range n {
		count := int(d.count(minHeaderBytes, "headers"))
		headers += count
		for range count {
			text += len(d.bytes("a header name")) + len(d.bytes("a header value"))
		}
		d.bytes("a body")
	}
	return headers, text, d.end()
}

func (d *binaryDecoder) record(r *stream.Record) {
	if n := d.count(minHeaderBytes, "headers"); n > 0 {
		r.Headers = d.headers(make([]stream.Header, n))
	}
	r.Body = d.bytes("a body")
}

// headers reads as many headers as into holds, and returns it, or nil for none.
func (d *binaryDecoder) headers(into []stream.Header) []stream.Header {
	for i := range into {
		into[i].Name = d.text("a header name")
		into[i].Value = d.text("a header value")
	}
	if len(into) == 0 {
		return nil
	}
	return into
}

func (d *binaryDecoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail("%d bytes follow the last record", len(d.rest))
	}
	return d.err
}
