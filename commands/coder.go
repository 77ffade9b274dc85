package commands

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// coder writes or reads the fixed form of CBOR that doc.go describes. One
// sequence of calls serves both directions: each call writes the value it is
// pointed at, or reads into it. The first error stays, and every call after it
// does nothing.
type coder struct {
	buf      []byte // grows when writing, is cut from the front when reading
	decoding bool
	err      error
}

// The major types of CBOR, in the upper three bits of an item's first byte.
const (
	majorUint  = 0 << 5
	majorNeg   = 1 << 5
	majorBytes = 2 << 5
	majorText  = 3 << 5
	majorArray = 4 << 5
	mapOpen    = 0xbf
	mapClose   = 0xff
	simpleTrue = 0xf5
)

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// head writes or reads an item's major type and argument.
func (c *coder) head(major byte, n uint64) uint64 {
	if c.decoding {
		got, v := c.readHead()
		if c.err == nil && got != major {
			c.fail("item of type %d where type %d belongs", got>>5, major>>5)
		}
		return v
	}
	switch {
	case n < 24:
		c.buf = append(c.buf, major|byte(n))
	case n <= 0xff:
		c.buf = append(c.buf, major|24, byte(n))
	case n <= 0xffff:
		c.buf = binary.BigEndian.AppendUint16(append(c.buf, major|25), uint16(n))
	case n <= 0xffffffff:
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, major|26), uint32(n))
	default:
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, major|27), n)
	}
	return n
}

// readHead reads a head in its shortest form.
func (c *coder) readHead() (major byte, n uint64) {
	if c.err != nil {
		return 0, 0
	}
	if len(c.buf) == 0 {
		c.fail("ends early")
		return 0, 0
	}
	first := c.buf[0]
	major, n = first&0xe0, uint64(first&0x1f)
	if n < 24 {
		c.buf = c.buf[1:]
		return major, n
	}
	if n > 27 {
		c.fail("unexpected byte %#02x", first)
		return 0, 0
	}
	width := 1 << (n - 24)
	if len(c.buf) < 1+width {
		c.fail("ends early")
		return 0, 0
	}
	n = 0
	for _, b := range c.buf[1 : 1+width] {
		n = n<<8 | uint64(b)
	}
	if (width == 1 && n < 24) || (width > 1 && n>>(width*4) == 0) {
		c.fail("number %d is not in its shortest form", n)
	}
	c.buf = c.buf[1+width:]
	return major, n
}

func (c *coder) literal(b byte, what string) {
	switch {
	case c.err != nil:
	case !c.decoding:
		c.buf = append(c.buf, b)
	case len(c.buf) == 0 || c.buf[0] != b:
		c.fail("%s is missing", what)
	default:
		c.buf = c.buf[1:]
	}
}

func (c *coder) open() { c.literal(mapOpen, "the start of a map") }
func (c *coder) close() {
	c.literal(mapClose, "the end of a map (an unknown field, or one out of order)")
}

func (c *coder) array(n uint64) {
	if got := c.head(majorArray, n); c.err == nil && got != n {
		c.fail("array of %d where %d belong", got, n)
	}
}

// key writes the key of a field that is present, or reports whether the next
// field is this one and takes its key.
func (c *coder) key(key uint64, present bool) bool {
	if c.err != nil {
		return false
	}
	if !c.decoding {
		if present {
			c.head(majorUint, key)
		}
		return present
	}
	// Keys are below 24, so that one byte is the key.
	if len(c.buf) == 0 || c.buf[0] != byte(key) {
		return false
	}
	c.buf = c.buf[1:]
	return true
}

func (c *coder) uint(v *uint64) { *v = c.head(majorUint, *v) }

// take cuts n bytes off what is being read.
func (c *coder) take(n uint64) []byte {
	if c.err == nil && n > uint64(len(c.buf)) {
		c.fail("%d bytes announced, %d left", n, len(c.buf))
	}
	if c.err != nil {
		return nil
	}
	out := c.buf[:n:n]
	c.buf = c.buf[n:]
	return out
}

// str is a string: text where it is UTF-8, else a byte string. Nothing that a
// client sent can so make a row that no node reads any more.
func (c *coder) str(s *string) {
	if !c.decoding {
		major := byte(majorText)
		if !utf8.ValidString(*s) {
			major = majorBytes
		}
		c.head(major, uint64(len(*s)))
		c.buf = append(c.buf, *s...)
		return
	}
	major, n := c.readHead()
	if c.err == nil && major != majorText && major != majorBytes {
		c.fail("item of type %d where a string belongs", major>>5)
	}
	b := c.take(n)
	switch valid := utf8.Valid(b); {
	case c.err != nil:
	case major == majorText && !valid:
		c.fail("text that is not UTF-8")
	case major == majorBytes && valid:
		c.fail("a byte string that is UTF-8; it must be text")
	}
	*s = string(b)
}

func (c *coder) bytes(key uint64, b *[]byte) {
	if !c.key(key, len(*b) > 0) {
		return
	}
	n := c.head(majorBytes, uint64(len(*b)))
	if c.decoding {
		*b = c.take(n)
		c.nonzero(key, n == 0)
		return
	}
	c.buf = append(c.buf, *b...)
}

// nonzero refuses a field that is written although it is zero: there is one
// way to write a value.
func (c *coder) nonzero(key uint64, zero bool) {
	if c.decoding && zero {
		c.fail("field %d is written although it is zero", key)
	}
}

// fixed is a byte string of exactly len(b) bytes, left out when all are zero.
func (c *coder) fixed(key uint64, b []byte) {
	var v []byte
	if !allZero(b) {
		v = b
	}
	c.bytes(key, &v)
	if !c.decoding || c.err != nil || v == nil {
		return
	}
	if len(v) != len(b) {
		c.fail("field %d has %d bytes where %d belong", key, len(v), len(b))
		return
	}
	c.nonzero(key, allZero(v))
	copy(b, v)
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

func (c *coder) signed(key uint64, v *int64) {
	if !c.key(key, *v != 0) {
		return
	}
	if !c.decoding {
		if *v < 0 {
			c.head(majorNeg, uint64(-1-*v))
		} else {
			c.head(majorUint, uint64(*v))
		}
		return
	}
	major, n := c.readHead()
	switch {
	case n > 1<<63-1 || (major != majorUint && major != majorNeg):
		c.fail("field %d is not a 64-bit integer", key)
	case major == majorNeg:
		*v = -1 - int64(n)
	default:
		*v = int64(n)
	}
	c.nonzero(key, *v == 0)
}

func (c *coder) flag(key uint64, v *bool) {
	if c.key(key, *v) {
		c.literal(simpleTrue, "true")
		*v = true
	}
}

// number codes an unsigned field of any width.
func number[T ~uint8 | ~uint32 | ~uint64](c *coder, key uint64, v *T) {
	if !c.key(key, *v != 0) {
		return
	}
	n := uint64(*v)
	c.uint(&n)
	*v = T(n)
	if uint64(*v) != n {
		c.fail("field %d: %d does not fit", key, n)
	}
	c.nonzero(key, n == 0)
}

func text[T ~string](c *coder, key uint64, v *T) {
	if !c.key(key, *v != "") {
		return
	}
	s := string(*v)
	c.str(&s)
	*v = T(s)
	c.nonzero(key, s == "")
}

func optional[T any](c *coder, key uint64, v **T, each func(*coder, *T)) {
	if !c.key(key, *v != nil) {
		return
	}
	if c.decoding {
		*v = new(T)
	}
	each(c, *v)
}

// list codes an array field whose items take at least smallest bytes each. The
// announced length is checked against the bytes that remain, and then the slice
// is allocated once, at that length.
func list[T any](c *coder, key, smallest uint64, v *[]T, each func(*coder, *T)) {
	if !c.key(key, len(*v) > 0) {
		return
	}
	n := c.head(majorArray, uint64(len(*v)))
	if c.decoding {
		if n > uint64(len(c.buf))/smallest {
			c.fail("%d items announced, %d bytes left", n, len(c.buf))
		}
		c.nonzero(key, n == 0)
		if c.err != nil {
			return
		}
		*v = make([]T, n)
	}
	for i := range *v {
		each(c, &(*v)[i])
		if c.err != nil {
			return
		}
	}
}
