package statemachine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// codec writes or reads the payload of one chunk. One sequence of calls serves
// both directions: each call writes the value it is pointed at, or reads into
// it, so that writer and reader cannot drift apart. The first error stays, and
// every call after it does nothing.
type codec struct {
	buf     []byte // grows when writing, is cut from the front when reading
	reading bool
	err     error
}

var errEndsEarly = errors.New("a chunk ends early")

func (c *codec) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// uint is an unsigned varint in its shortest form.
func (c *codec) uint(v *uint64) {
	switch {
	case c.err != nil:
	case !c.reading:
		c.buf = binary.AppendUvarint(c.buf, *v)
	default:
		n := 0
		*v, n = binary.Uvarint(c.buf)
		if n <= 0 || (n > 1 && c.buf[n-1] == 0) {
			c.err = errEndsEarly
			return
		}
		c.buf = c.buf[n:]
	}
}

// number is an unsigned number of any width, at most limit when read.
func number[T ~uint8 | ~uint32 | ~uint64](c *codec, v *T, limit uint64) {
	n := uint64(*v)
	c.uint(&n)
	if c.reading && n > limit {
		c.fail("%d where at most %d belongs", n, limit)
		return
	}
	*v = T(n)
}

// positive is a signed number that is never negative.
func positive[T ~int64](c *codec, v *T) {
	n := uint64(*v)
	number(c, &n, math.MaxInt64)
	*v = T(n)
}

// signed is a zigzag varint.
func signed[T ~int64](c *codec, v *T) {
	n := uint64(*v)<<1 ^ uint64(*v>>63)
	c.uint(&n)
	*v = T(n>>1) ^ -T(n&1)
}

// fixed is eight bytes, little endian.
func fixed[T ~uint64](c *codec, v *T) {
	if !c.reading {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, uint64(*v))
		return
	}
	if b := c.take(8); b != nil {
		*v = T(binary.LittleEndian.Uint64(b))
	}
}

// raw is exactly len(b) bytes.
func (c *codec) raw(b []byte) {
	if !c.reading {
		c.buf = append(c.buf, b...)
		return
	}
	copy(b, c.take(uint64(len(b))))
}

// text is a length and its bytes, at most limit of them when read.
func (c *codec) text(s *string, limit uint64) {
	n := uint64(len(*s))
	number(c, &n, limit)
	if !c.reading {
		c.buf = append(c.buf, *s...)
		return
	}
	*s = string(c.take(n))
}

// flag is one byte, 0 or 1.
func (c *codec) flag(v *bool) {
	var n uint8
	if *v {
		n = 1
	}
	number(c, &n, 1)
	*v = n == 1
}

// take cuts n bytes off what is being read.
func (c *codec) take(n uint64) []byte {
	if c.err == nil && n > uint64(len(c.buf)) {
		c.err = errEndsEarly
	}
	if c.err != nil {
		return nil
	}
	out := c.buf[:n]
	c.buf = c.buf[n:]
	return out
}

// list is a count and that many items of at least smallest bytes each: a count
// is checked against the bytes that remain before anything is allocated.
func list[T any](c *codec, smallest uint64, v *[]T, each func(*codec, *T)) {
	n := uint64(len(*v))
	number(c, &n, uint64(len(c.buf))/smallest)
	if c.err != nil {
		return
	}
	if c.reading {
		*v = nil
		if n > 0 {
			*v = make([]T, n)
		}
	}
	for i := range *v {
		each(c, &(*v)[i])
		if c.err != nil {
			return
		}
	}
}
