package httpapi

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// durableFormat is how a stream of some content type travels in an event stream
// of Durable Streams: JSON as arrays, text as text, everything else as base64.
func durableFormat(contentType string, cursor liveCursor) eventFormat {
	control := durableControl{cursor: cursor}
	switch {
	case stream.IsJSON(contentType):
		return durableJSON{control}
	case stream.IsText(contentType):
		return durableText{control}
	default:
		return durableBase64{control}
	}
}

// durableControl writes the control events of all three.
type durableControl struct{ cursor liveCursor }

func (d durableControl) appendControl(dst []byte, p place) []byte {
	dst = wire.BeginEvent(dst, wire.EventControl, "")
	dst = append(dst, `data:{"streamNextOffset":"`...)
	dst = wire.AppendToken(dst, p.next)
	dst = append(dst, '"')
	if !p.closed {
		dst = append(dst, `,"streamCursor":"`...)
		dst = strconv.AppendUint(dst, d.cursor.value(), 10)
		dst = append(dst, '"')
	}
	if p.upToDate {
		dst = append(dst, `,"upToDate":true`...)
	}
	if p.closed {
		dst = append(dst, `,"streamClosed":true`...)
	}
	dst = append(dst, "}\n"...)
	return wire.EndEvent(dst)
}

func appendDurableData(dst, data []byte) []byte {
	dst = wire.BeginEvent(dst, wire.EventData, "")
	dst = wire.AppendEventData(dst, data)
	return wire.EndEvent(dst)
}

// joined is a chunk's body in one piece.
func joined(c *stream.Chunk) []byte { return bytes.Join(chunkBodies(c), nil) }

type durableJSON struct{ durableControl }

func (durableJSON) key() string { return "durable json" }

func (durableJSON) appendData(dst []byte, c *stream.Chunk) ([]byte, stream.Offset) {
	return appendDurableData(dst, joined(c)), c.Next
}

type durableBase64 struct{ durableControl }

func (durableBase64) key() string { return "durable base64" }

func (durableBase64) appendData(dst []byte, c *stream.Chunk) ([]byte, stream.Offset) {
	dst = wire.BeginEvent(dst, wire.EventData, "")
	dst = append(dst, "data:"...)
	dst = base64.StdEncoding.AppendEncode(dst, joined(c))
	dst = append(dst, '\n')
	return wire.EndEvent(dst), c.Next
}

// durableText sends text, which must be UTF-8 in an event stream. Appends may
// cut a character in two: an event then ends before the record that holds its
// first byte, and the offset with it, until the rest has come. Bytes that no
// rest can make valid become U+FFFD.
type durableText struct{ durableControl }

// Records that are cut in the middle of a character one after the other have
// no offset to stop at. Looking for one ends after so many records or bytes; the
// cut character is then lost to U+FFFD, in this format only.
const (
	maxHeldRecords = 64
	maxHeldBytes   = maxReadBytes
)

func (durableText) key() string { return "durable text" }

func (durableText) appendData(dst []byte, c *stream.Chunk) ([]byte, stream.Offset) {
	text := joined(c)
	next := c.Next
	if !c.AtEnd() {
		text, next = holdBack(text, c)
	}
	if next == c.First {
		return dst, next
	}
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	return appendDurableData(dst, text), next
}

// holdBack shortens the text of a chunk to the last record that ends between
// two characters, and tells the offset after it.
func holdBack(text []byte, c *stream.Chunk) ([]byte, stream.Offset) {
	end, next := len(text), c.Next
	for i := len(c.Runs) - 1; i >= 0; i-- {
		run := &c.Runs[i]
		for record := run.Len() - 1; record >= 0; record-- {
			if !endsInside(text[:end]) {
				return text[:end], next
			}
			if c.Next-next == maxHeldRecords {
				return text, c.Next
			}
			end -= len(run.Body(record))
			next--
		}
	}
	if len(text) >= maxHeldBytes {
		return text, c.Next
	}
	return nil, c.First
}

// endsInside tells whether text ends inside a character: whether its last bytes
// begin one that more bytes can complete.
func endsInside(text []byte) bool {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if rest := text[len(text)-back:]; utf8.RuneStart(rest[0]) {
			return !utf8.FullRune(rest)
		}
	}
	return false
}
