package blobwal

import (
	"encoding/binary"

	"github.com/picomq/picomq/stream"
)

// MaxHeaders is how many headers a record may have.
const MaxHeaders = 1 << 16

// appendHeaders appends one record's headers as blocks hold them.
func appendHeaders(p []byte, headers []stream.Header) []byte {
	p = binary.AppendUvarint(p, uint64(len(headers)))
	for _, h := range headers {
		p = binary.AppendUvarint(p, uint64(len(h.Name)))
		p = append(p, h.Name...)
		p = binary.AppendUvarint(p, uint64(len(h.Value)))
		p = append(p, h.Value...)
	}
	return p
}

// headersBytes is what appendHeaders appends.
func headersBytes(headers []stream.Header) int {
	n := uvarintBytes(len(headers))
	for _, h := range headers {
		n += uvarintBytes(len(h.Name)) + len(h.Name) + uvarintBytes(len(h.Value)) + len(h.Value)
	}
	return n
}

func uvarintBytes(v int) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// validHeaders walks encoded record headers once, so that decodeHeaders cannot
// fail later.
func validHeaders(p []byte, records uint32) bool {
	for range records {
		count, n := binary.Uvarint(p)
		if n <= 0 || count > MaxHeaders {
			return false
		}
		p = p[n:]
		for range 2 * count {
			length, n := binary.Uvarint(p)
			if n <= 0 || length > uint64(len(p)-n) {
				return false
			}
			p = p[n+int(length):]
		}
	}
	return len(p) == 0
}

// decodeHeaders decodes the headers of records [from, to).
func decodeHeaders(p []byte, from, to int) [][]stream.Header {
	for range from {
		_, p = nextHeaders(p, false)
	}
	var any bool
	out := make([][]stream.Header, to-from)
	for i := range out {
		out[i], p = nextHeaders(p, true)
		any = any || out[i] != nil
	}
	if !any {
		return nil
	}
	return out
}

// nextHeaders takes one record's headers off p, which was found valid.
func nextHeaders(p []byte, keep bool) (headers []stream.Header, rest []byte) {
	count, n := binary.Uvarint(p)
	p = p[n:]
	if keep && count > 0 {
		headers = make([]stream.Header, 0, count)
	}
	for range count {
		var name, value []byte
		name, p = nextString(p)
		value, p = nextString(p)
		if keep {
			headers = append(headers, stream.Header{Name: string(name), Value: string(value)})
		}
	}
	return headers, p
}

func nextString(p []byte) (s, rest []byte) {
	length, n := binary.Uvarint(p)
	end := n + int(length)
	return p[n:end], p[end:]
}
