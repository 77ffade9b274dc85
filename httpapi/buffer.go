package httpapi

import (
	"math/bits"
	"net/http"
	"sync"
)

// Large bodies lie in buffers that are used again: to clear fresh memory for each
// and to collect it costs as much as to receive it. Buffers have the sizes from
// leastBuffer to mostBuffer that are powers of two; a body outside of these has
// memory of its own.
const (
	leastBuffer = 16 << 10
	mostBuffer  = 1 << 20
)

// buffers are those that nobody uses, one pool for each size. There are never more
// than were in use at one time since the last two collections of garbage, and that
// is bounded by [Config.BodyBudget].
var buffers [7]sync.Pool

// poolOf is where buffers of a size from leastBuffer to mostBuffer are.
func poolOf(size int64) *sync.Pool { return &buffers[bits.Len64(uint64(size/leastBuffer))-1] }

// buffer is the memory of one body.
type buffer struct {
	bytes []byte
	whole []byte // what is used again; nil when that is nothing
}

// bufferSize is how much memory a body of so many bytes is given.
func bufferSize(n int64) int64 {
	if n < leastBuffer || n > mostBuffer {
		return n
	}
	return 1 << bits.Len64(uint64(n)-1)
}

// takeBuffer is a buffer of a size that bufferSize gives, and one byte more. What
// was in it before is still there.
func takeBuffer(size int64) *buffer {
	if size < leastBuffer || size > mostBuffer {
		return &buffer{bytes: make([]byte, size+1)}
	}
	b, ok := poolOf(size).Get().(*buffer)
	if !ok {
		b = &buffer{whole: make([]byte, size+1)}
	}
	b.bytes = b.whole
	return b
}

// grow is a buffer of another size with the same bytes at its front. The old one
// is gone.
func (b *buffer) grow(size int64) *buffer {
	grown := takeBuffer(size)
	copy(grown.bytes, b.bytes)
	b.release()
	return grown
}

// release gives the memory back. Nobody may have any part of it after that.
func (b *buffer) release() {
	if b.whole == nil {
		return
	}
	b.bytes = nil
	poolOf(int64(len(b.whole)) - 1).Put(b)
}

// doneWithBody says that the request's records were stored, so that nobody looks at
// its body any more. After an append that failed, or may have, somebody still might.
func doneWithBody(w http.ResponseWriter) {
	if e, ok := w.(*exchange); ok && e.body != nil {
		e.body.release()
		e.body = nil
	}
}
