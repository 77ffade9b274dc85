package blobwal

import (
	"encoding/binary"

	"github.com/picomq/picomq/stream"
)

// Encoded is a segment as bytes.
type Encoded struct {
	Object []byte
	// Bytes[i] is what append i takes in its blocks: bodies, separators, ends
	// and headers; what a block takes beside its records counts for the append
	// of its first record. Together at most the object's size.
	Bytes   []uint64
	Records uint32
	Blocks  int
}

// Encode lays appends out as a segment. Appends of one stream must be
// neighbours; their order is kept. Each is bounded as [Writer.Add] says, and
// all together fit [MaxObjectBytes].
func Encode(id Identity, sequence uint64, appends []*Append) *Encoded {
	e := &encoder{appends: appends, out: &Encoded{Bytes: make([]uint64, len(appends))}}
	for from := 0; from < len(appends); {
		to := from + 1
		key := appends[from].key()
		for to < len(appends) && appends[to].key() == key {
			to++
		}
		e.plan(from, to)
		from = to
	}
	e.write(id, sequence)
	return e.out
}

// encoder cuts the records into blocks first, so that the object is allocated
// once at its exact size.
type encoder struct {
	appends []*Append
	blocks  []blockPlan
	size    int // of all blocks
	out     *Encoded
}

// blockPlan is one block before it is written: count records from one place on.
type blockPlan struct {
	append, record int // of the first record
	count          int
	headers        int // bytes of the record headers; 0 when no record has any
	bodies         int // bytes, separators included
}

// size is the bytes of the block, its record ends and headers included.
func (p *blockPlan) size(nameBytes int) int {
	n := blockBytes + nameBytes + p.count*endBytes + p.bodies
	if p.headers > 0 {
		n += 4 + p.headers
	}
	return n
}

// more is what one more record adds to bodies and headers.
func (p *blockPlan) more(r *stream.Record, json bool) (bodies, headers int) {
	bodies = len(r.Body)
	if p.count > 0 && json {
		bodies++
	}
	switch {
	case p.headers > 0:
		headers = headersBytes(r.Headers)
	case len(r.Headers) > 0:
		headers = p.count + headersBytes(r.Headers) // a 0 for each record before
	}
	return bodies, headers
}

// plan cuts the records of appends [from, to), all of one stream, into blocks.
func (e *encoder) plan(from, to int) {
	name, json := e.nameOf(from), e.appends[from].JSON
	p := blockPlan{append: from}
	for i := from; i < to; i++ {
		records := e.appends[i].Records
		for j := range records {
			bodies, headers := p.more(&records[j], json)
			if p.count > 0 && p.sizeWith(bodies, headers, len(name)) > MaxBlockBytes {
				e.close(p, len(name))
				p = blockPlan{append: i, record: j}
				bodies, headers = p.more(&records[j], json)
			}
			p.count++
			p.bodies += bodies
			p.headers += headers
		}
	}
	e.close(p, len(name))
}

// sizeWith is size with one more record, of which more has said what it adds.
func (p *blockPlan) sizeWith(bodies, headers, nameBytes int) int {
	n := blockBytes + nameBytes + (p.count+1)*endBytes + p.bodies + bodies
	if headers += p.headers; headers > 0 {
		n += 4 + headers
	}
	return n
}

func (e *encoder) close(p blockPlan, nameBytes int) {
	e.blocks = append(e.blocks, p)
	e.size += p.size(nameBytes)
}

// nameOf is the name that the blocks of an append carry.
func (e *encoder) nameOf(i int) stream.Name {
	if e.appends[i].Stream != 0 {
		return ""
	}
	return e.appends[i].Name
}

func (e *encoder) write(id Identity, sequence uint64) {
	indexBytes := headerBytes + entryBytes*len(e.blocks)
	object := make([]byte, 0, headerBytes+e.size+indexBytes+footerBytes)
	object = appendHeader(object, 0, id, sequence)
	index := make([]byte, 0, indexBytes)
	index = append(index, object...)
	for i := range e.blocks {
		start := len(object)
		object = e.appendBlock(object, &e.blocks[i])
		p := &e.blocks[i]
		index = appendEntry(index, &BlockInfo{
			Stream: e.appends[p.append].Stream,
			Length: uint32(len(object) - start),
			Count:  uint32(p.count),
			CRC:    checksum(object[start:]),
		})
		e.out.Records += uint32(p.count)
	}
	f := &footer{position: uint64(len(object)), length: uint32(len(index)), crc: checksum(index), records: e.out.Records}
	object = append(object, index...)
	e.out.Object = appendFooter(object, f)
	e.out.Blocks = len(e.blocks)
}

// appendBlock writes the block at the end of b, which has room for it.
func (e *encoder) appendBlock(b []byte, p *blockPlan) []byte {
	name, json := e.nameOf(p.append), e.appends[p.append].JSON
	var flags byte
	if json {
		flags |= flagJSON
	}
	if p.headers > 0 {
		flags |= flagHeaders
	}
	overhead := blockBytes + len(name)
	b = binary.BigEndian.AppendUint64(b, uint64(e.appends[p.append].Stream))
	b = binary.BigEndian.AppendUint32(b, uint32(p.count))
	b = append(b, flags, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(name)))
	b = append(b, name...)
	ends := b[len(b) : len(b)+p.count*endBytes]
	b = b[:len(b)+len(ends)]
	if p.headers > 0 {
		overhead += 4
		b = binary.BigEndian.AppendUint32(b, uint32(p.headers))
		b = e.appendHeaders(b, p)
	}
	b = e.appendBodies(b, ends, p, json)
	e.out.Bytes[p.append] += uint64(overhead)
	return b
}

func (e *encoder) appendHeaders(b []byte, p *blockPlan) []byte {
	e.each(p, func(i int, records []stream.Record) {
		before := len(b)
		for j := range records {
			b = appendHeaders(b, records[j].Headers)
		}
		e.out.Bytes[i] += uint64(len(b) - before)
	})
	return b
}

// appendBodies appends the bodies and writes where each ends into ends.
func (e *encoder) appendBodies(b, ends []byte, p *blockPlan, json bool) []byte {
	first, n := len(b), 0
	e.each(p, func(i int, records []stream.Record) {
		out := b
		for j := range records {
			if json && n > 0 {
				out = append(out, ',')
			}
			out = append(out, records[j].Body...)
			binary.BigEndian.PutUint32(ends[n*endBytes:], uint32(len(out)-first))
			n++
		}
		e.out.Bytes[i] += uint64(len(out) - len(b) + endBytes*len(records))
		b = out
	})
	return b
}

// each calls do with the records of a block by the appends that they are of.
func (e *encoder) each(p *blockPlan, do func(i int, records []stream.Record)) {
	i, from := p.append, p.record
	for left := p.count; left > 0; i, from = i+1, 0 {
		records := e.appends[i].Records[from:]
		records = records[:min(left, len(records))]
		left -= len(records)
		do(i, records)
	}
}
