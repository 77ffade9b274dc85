package loadgen

import (
	"bytes"
	"fmt"
	"time"
)

// A mark is two bytes that occur nowhere else in a body, and the nanoseconds
// since the run began in 16 digits: 115 days.
const (
	markStart  = "@T"
	markDigits = 16
	markLength = len(markStart) + markDigits
)

// newRecord is a record without its time.
func newRecord(size int) []byte {
	record := bytes.Repeat([]byte{'x'}, size)
	copy(record, markStart+"0000000000000000")
	return record
}

// newMessage is a JSON value of that many bytes without its time: an object with
// members as log events have them, or a string where no object fits. The quotes
// of the string go on top of size.
func newMessage(size int) []byte {
	const begin, note = `{"sent":"` + markStart + "0000000000000000" + `"`, `,"note":"`
	const end = `"}`
	room := size - len(begin) - len(note) - len(end)
	if room < 0 {
		return append(append([]byte{'"'}, newRecord(size)...), '"')
	}
	message := []byte(begin)
	for i := 0; ; i++ {
		members := fmt.Sprintf(`,"service%d":"orders","status%d":%d,"path%d":"/v1/orders/%d","tags%d":["eu-west","web"],"cached%d":false,"ms%d":%d.25`,
			i, i, 200+i, i, 1000*i, i, i, i, i)
		if room -= len(members); room < 0 {
			room += len(members)
			break
		}
		message = append(message, members...)
	}
	message = append(message, note...)
	message = append(message, bytes.Repeat([]byte{'x'}, room)...)
	return append(message, end...)
}

// markOffsets is where the digits of every mark stand.
func markOffsets(body []byte) []int {
	var offsets []int
	for at := 0; ; {
		i := bytes.Index(body[at:], []byte(markStart))
		if i < 0 {
			return offsets
		}
		at += i + len(markStart)
		offsets = append(offsets, at)
	}
}

// stamp writes a time into the digits.
func stamp(digits []byte, since time.Duration) {
	n := uint64(since)
	for i := markDigits - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
}

// markScanner finds marks in a stream of bytes that comes in pieces.
type markScanner struct {
	rest []byte // the end of the last piece, shorter than a mark
}

// scan calls found with the time of every mark that ends in this piece.
func (s *markScanner) scan(piece []byte, found func(sent time.Duration)) {
	if len(s.rest) > 0 {
		// A mark that began in the last piece.
		joined := append(s.rest, piece[:min(len(piece), markLength-1)]...)
		s.rest = s.rest[:0]
		if len(piece) < markLength-1 {
			s.rest = append([]byte(nil), findMarks(joined, found)...)
			return
		}
		findMarks(joined, found)
	}
	s.rest = append(s.rest[:0], findMarks(piece, found)...)
}

// findMarks returns the end of b in which a mark may have begun.
func findMarks(b []byte, found func(sent time.Duration)) []byte {
	for {
		i := bytes.Index(b, []byte(markStart))
		if i < 0 {
			return b[max(0, len(b)-(markLength-1)):]
		}
		if i+markLength > len(b) {
			return b[i:]
		}
		var n uint64
		for _, digit := range b[i+len(markStart) : i+markLength] {
			n = n*10 + uint64(digit-'0')
		}
		found(time.Duration(n))
		b = b[i+markLength:]
	}
}
