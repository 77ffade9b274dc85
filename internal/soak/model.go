package soak

import (
	"fmt"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/stream"
)

// record is what a model remembers of a record: its body follows from a seed.
type record struct {
	seed uint64
	size uint32      // of the body; a fork may have cut it
	time stream.Time // 0: not learned yet
}

// body writes out a body: printable bytes, in a JSON stream between quotes.
func (r record) body(json bool) []byte {
	b := make([]byte, r.size)
	x := r.seed | 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = 'a' + byte(x>>32)%26
	}
	if json {
		b[0], b[len(b)-1] = '"', '"'
	}
	return b
}

// model is what a stream must be. Only its worker changes the stream, but for
// what expiry and retention do.
type model struct {
	name     stream.Name
	id       stream.ID
	config   stream.Config
	json     bool
	closed   bool
	forked   bool // it has, or had, forks
	start    stream.Offset
	kept     []record // from start on
	producer stream.Producer
	used     time.Time // a moment after which it was surely used
	lately   []string  // what was done to it, for messages
}

func (m *model) tail() stream.Offset { return m.start + stream.Offset(len(m.kept)) }

// at is the record at an offset that is kept.
func (m *model) at(o stream.Offset) *record { return &m.kept[o-m.start] }

// note remembers what was done.
func (m *model) note(format string, args ...any) {
	const most = 24
	if len(m.lately) == most {
		m.lately = append(m.lately[:0], m.lately[1:]...)
	}
	m.lately = append(m.lately, fmt.Sprintf(format, args...))
}

// clockSlack is what two readings of one clock by way of milliseconds may differ.
const clockSlack = 5 * time.Millisecond

// mayBeGone tells whether it may have expired.
func (m *model) mayBeGone() bool {
	now := time.Now().Add(clockSlack)
	switch m.config.Expiry.Kind {
	case stream.ExpiresIdle:
		return now.Sub(m.used) >= time.Duration(m.config.Expiry.TTL)*time.Second
	case stream.ExpiresAt:
		return now.UnixMilli() >= int64(m.config.Expiry.At)
	default:
		return false
	}
}

// recordOverhead is more than a record takes in a segment beside its body.
const recordOverhead = 128

// mayStart tells whether retention may have moved the start to an offset.
func (m *model) mayStart(to stream.Offset) bool {
	if to <= m.start || to > m.tail() {
		return to == m.start
	}
	keep := m.config.Retention
	oldest := time.Now().Add(clockSlack).Add(-time.Duration(keep.Age) * time.Second).UnixMilli()
	if keep.Age > 0 && int64(m.at(to-1).time) < oldest {
		return true
	}
	held := uint64(0)
	for _, r := range m.kept[to-m.start:] {
		held += uint64(r.size) + recordOverhead
	}
	return keep.Bytes > 0 && held >= keep.Bytes
}

// moveStart drops what is below an offset.
func (m *model) moveStart(to stream.Offset) {
	m.kept = m.kept[to-m.start:]
	m.start = to
	if len(m.kept)*2 < cap(m.kept) {
		m.kept = append([]record(nil), m.kept...)
	}
}

// overdue tells whether retention must have moved the start by now, if it has had
// its turn since a moment. It may leave less than a block that must go.
func (m *model) overdue(since time.Time) bool {
	keep := m.config.Retention
	oldest := since.Add(-time.Duration(keep.Age) * time.Second).UnixMilli()
	var aged, held uint64
	for i, r := range m.kept {
		if r.time > 0 && int64(r.time) < oldest {
			aged += uint64(r.size)
		}
		if i > 0 {
			held += uint64(r.size)
		}
	}
	return keep.Age > 0 && aged >= blobwal.MaxBlockBytes || keep.Bytes > 0 && held >= keep.Bytes+blobwal.MaxBlockBytes
}
