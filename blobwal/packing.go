package blobwal

import (
	"encoding/binary"
	"sort"
	"unsafe"

	"github.com/picomq/picomq/stream"
)

const (
	packingBytes = 12 // in a packed block, before the table of times
	timeBytes    = 12 // per entry of the table

	spanBytes = 16 // per entry once decoded, where headers begin included
)

// packing is what a block of a packed segment says of all its records: where
// they lie in their stream and when they were appended. Records of one time are
// one span.
type packing struct {
	base  stream.Offset
	ends  []uint32      // ends[i] is how many records spans 0 to i have together
	times []stream.Time // of each span; neighbours differ
	// headers[i] is where the headers of span i begin, so that reading a block
	// span by span walks its headers once; nil when it has none.
	headers []uint32
}

// decodePacking takes the base offset and the table of times off p; it returns
// nil when they are not those of so many records.
func decodePacking(p []byte, count uint32) (*packing, []byte) {
	if len(p) < packingBytes {
		return nil, nil
	}
	base, spans := stream.Offset(binary.BigEndian.Uint64(p)), binary.BigEndian.Uint32(p[8:])
	p = p[packingBytes:]
	switch {
	case base > stream.MaxOffset || stream.Offset(count) > stream.MaxOffset-base:
		return nil, nil
	case spans == 0 || spans > count || uint64(spans)*timeBytes > uint64(len(p)):
		return nil, nil
	}
	k := &packing{base: base, ends: make([]uint32, spans), times: make([]stream.Time, spans)}
	end := uint32(0)
	for i := range k.ends {
		n := binary.BigEndian.Uint32(p)
		k.times[i] = stream.Time(binary.BigEndian.Uint64(p[4:]))
		if n == 0 || n > count-end || (i > 0 && k.times[i] == k.times[i-1]) {
			return nil, nil
		}
		end += n
		k.ends[i] = end
		p = p[timeBytes:]
	}
	if end != count {
		return nil, nil
	}
	return k, p
}

// appendTo is the inverse of decodePacking.
func (k *packing) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(k.base))
	b = binary.BigEndian.AppendUint32(b, uint32(len(k.ends)))
	before := uint32(0)
	for i, end := range k.ends {
		b = binary.BigEndian.AppendUint32(b, end-before)
		b = binary.BigEndian.AppendUint64(b, uint64(k.times[i]))
		before = end
	}
	return b
}

// add says that n more records have this time.
func (k *packing) add(n int, at stream.Time) {
	last := len(k.ends) - 1
	switch {
	case last < 0:
		k.ends, k.times = append(k.ends, uint32(n)), append(k.times, at)
	case k.times[last] == at:
		k.ends[last] += uint32(n)
	default:
		k.ends, k.times = append(k.ends, k.ends[last]+uint32(n)), append(k.times, at)
	}
}

// span is the number of the span that a record of the block lies in.
func (k *packing) span(record uint32) int {
	return sort.Search(len(k.ends), func(i int) bool { return k.ends[i] > record })
}

// place gives the run of the whole block its offset, and the time of the record
// at from; it returns to, or where that time ends if that is earlier.
func (k *packing) place(whole *stream.Run, from, to int) int {
	i := k.span(uint32(from))
	whole.First, whole.Time = k.base, k.times[i]
	return min(to, int(k.ends[i]))
}

// findHeaders notes where the headers of each span begin within encoded ones,
// which were found valid.
func (k *packing) findHeaders(encoded []byte) {
	k.headers = make([]uint32, len(k.ends))
	rest, record := encoded, uint32(0)
	for i, end := range k.ends {
		k.headers[i] = uint32(len(encoded) - len(rest))
		for ; record < end; record++ {
			_, rest = nextHeaders(rest, false)
		}
	}
}

// headersFrom is where to begin to walk the headers for those of a record, and
// how many records before it that passes over. Without a packing it is the
// beginning.
func (k *packing) headersFrom(record int) (position, before int) {
	if k == nil {
		return 0, 0
	}
	i := k.span(uint32(record))
	if i > 0 {
		before = int(k.ends[i-1])
	}
	return int(k.headers[i]), before
}

// bytes is the memory it holds on to.
func (k *packing) bytes() int {
	return int(unsafe.Sizeof(*k)) + timeBytes*len(k.ends) + (spanBytes-timeBytes)*len(k.headers)
}
