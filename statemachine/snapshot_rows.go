package statemachine

import (
	"math"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// The least bytes that one item of a list takes.
const (
	leastNode       = 25
	leastSpan       = 2
	leastCheckpoint = 9
	leastSegment    = 13
	leastStream     = 11
	leastExtent     = 4
	leastProducer   = 5
)

// maxText bounds the strings that no rule bounds: addresses and releases, which
// come from payloads.
const maxText = commands.MaxPayload

// scalars are the parts of a state that there is one of.
type scalars struct {
	index      commands.Index
	digest     commands.Digest
	logTime    stream.Time
	activeTime int64
	lastDense  uint64
	slots      uint64
	hasCluster bool
	cluster    commands.ClusterID
	level      uint32
	release    string
}

func (s *State) scalars() scalars {
	return scalars{
		index: s.index, digest: s.Digest(), logTime: s.logTime, activeTime: s.activeTime, lastDense: s.lastDense,
		slots: s.counts.Slots, hasCluster: s.hasCluster, cluster: s.cluster, level: s.level, release: s.release,
	}
}

func (x *scalars) code(c *codec) {
	var log uint64 // this state is of log 0, the only one so far
	number(c, &log, 0)
	number(c, &x.index, math.MaxUint64)
	fixed(c, &x.digest)
	positive(c, &x.logTime)
	positive(c, &x.activeTime)
	number(c, &x.lastDense, maxDense)
	number(c, &x.slots, maxSegments)
	c.flag(&x.hasCluster)
	c.raw(x.cluster[:])
	number(c, &x.level, math.MaxUint32)
	c.text(&x.release, maxText)
}

func codeNode(c *codec, n *node) {
	number(c, &n.Node.Node, math.MaxUint32)
	number(c, &n.Epoch, math.MaxUint64)
	c.raw(n.Incarnation[:])
	c.text(&n.Address, maxText)
	number(c, &n.Level, math.MaxUint32)
	c.text(&n.Release, maxText)
	number(c, &n.LastSeq, math.MaxUint64)
	c.flag(&n.Gone)
	for _, q := range []*sequences{&n.used, &n.givenUp} {
		list(c, leastSpan, &q.spans, func(c *codec, s *span) {
			number(c, &s.from, math.MaxUint64)
			number(c, &s.to, math.MaxUint64)
		})
	}
}

func codeCheckpoint(c *codec, x *checkpoint) {
	number(c, &x.at, math.MaxUint64)
	fixed(c, &x.digest)
}

func codeSegment(c *codec, x *Segment) {
	number(c, &x.Node, math.MaxUint32)
	number(c, &x.Epoch, math.MaxUint64)
	number(c, &x.Sequence, math.MaxUint64)
	number(c, &x.Size, math.MaxUint64)
	number(c, &x.Referenced, math.MaxUint64)
	positive(c, &x.Time)
	number(c, &x.Extents, math.MaxUint32)
	number(c, &x.Level, math.MaxUint8)
	positive(c, &x.Oldest)
	positive(c, &x.Newest)
	positive(c, &x.Doomed)
	number(c, &x.First, math.MaxUint64)
	number(c, &x.Last, math.MaxUint64)
}

// code is a stream. Ids are written as the distance to the one before in the
// chunk.
func (x *rowCopy) code(c *codec, previous *stream.ID) {
	distance := uint64(x.id - *previous)
	number(c, &distance, maxDense)
	x.id = *previous + stream.ID(distance)
	*previous = x.id
	c.text(&x.name, stream.MaxNameBytes)
	c.text(&x.contentType, stream.MaxContentType)
	r := &x.row
	positive(c, &r.created)
	number(c, &r.start, uint64(stream.MaxOffset))
	number(c, &r.tail, uint64(stream.MaxOffset))
	number(c, &r.flags, knownFlags)
	number(c, &r.expiry, uint64(stream.ExpiresAt))
	if r.expiry != stream.ExpiresNever {
		signed(c, &r.limit)
		positive(c, &r.touched)
	}
	if r.streamSeq() {
		c.text(&x.streamSeq, stream.MaxStreamSeq)
	}
	if r.isFork() {
		x.codeFork(c)
	}
	if r.forked() {
		number(c, &x.forks, math.MaxUint32)
	}
	if r.retained() {
		number(c, &x.retention.Age, stream.MaxTTL)
		number(c, &x.retention.Bytes, stream.MaxRetentionBytes)
	}
	x.codeExtents(c)
	list(c, leastProducer, &x.producers, codeProducer)
	number(c, &x.closer, uint64(len(x.producers)))
}

func (x *rowCopy) codeFork(c *codec) {
	f := stream.Fork{}
	if !c.reading {
		f = *x.fork
	}
	number(c, &f.Parent, maxDense)
	name := string(f.From)
	c.text(&name, stream.MaxNameBytes)
	f.From = stream.Name(name)
	number(c, &f.At, uint64(stream.MaxOffset))
	number(c, &f.Sub, math.MaxUint64)
	number(c, &f.End, uint64(stream.MaxOffset))
	if c.reading {
		x.fork = &f
	}
}

// codeExtents is a count and the extents. Their offsets follow from the start,
// so they cannot but join.
func (x *rowCopy) codeExtents(c *codec) {
	n := uint64(len(x.extents))
	if x.last.count() > 0 {
		n++
	}
	number(c, &n, uint64(len(c.buf))/leastExtent)
	if c.err != nil {
		return
	}
	if c.reading && n > 0 {
		x.extents = make([]stored, n)
	}
	next := x.row.start
	var previous int64
	for i := range n {
		e := x.last
		if i < uint64(len(x.extents)) {
			e = x.extents[i]
		}
		slot := int64(e.Segment) - previous
		signed(c, &slot)
		previous += slot
		e.Segment = uint32(previous)
		number(c, &e.Ordinal, math.MaxUint32)
		number(c, &e.Bytes, math.MaxUint32)
		number(c, &e.packed, math.MaxUint32)
		next += e.count()
		if c.reading {
			x.extents[i] = e
		}
	}
	if c.reading && next != x.row.tail {
		c.fail("the extents of stream %d end at %d, its tail is %d", x.id.Dense(), next, x.row.tail)
	}
}

func codeProducer(c *codec, x *producerCopy) {
	c.text(&x.name, stream.MaxProducerID)
	p := &x.producer
	number(c, &p.epoch, stream.MaxProducerNumber)
	number(c, &p.seq, stream.MaxProducerNumber)
	number(c, &p.first, uint64(stream.MaxOffset))
	number(c, &p.known, maxKnown)
	for i := range p.back[:max(p.known, 1)-1] {
		number(c, &p.back[i], math.MaxUint32)
	}
}
