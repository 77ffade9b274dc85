package statemachine

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// The items of the canonical state. Each is hashed as its tag and its values,
// 64 bits each, little endian; doc.go has the table. Tags keep items of
// different kinds apart.
const (
	itemScalars uint64 = 1 + iota
	itemIdentity
	itemRow
	itemStreamSeq
	itemExtent
	itemProducer
	itemSegment
	itemNode
	itemFork
	itemRetention
	itemReferences
	itemGone
)

// maxWords is the longest item, tag included.
const maxWords = 12

// Digest is the digest of the canonical state after the last applied entry.
// Apply goroutine only.
func (s *State) Digest() commands.Digest {
	return commands.Digest(s.items + s.hashScalars())
}

func hash(words ...uint64) uint64 {
	var buf [maxWords * 8]byte
	for i, w := range words {
		binary.LittleEndian.PutUint64(buf[i*8:], w)
	}
	return xxhash.Sum64(buf[:len(words)*8])
}

// halves are 16 bytes as two words.
func halves(b [16]byte) (uint64, uint64) {
	return binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])
}

func (s *State) hashScalars() uint64 {
	hasCluster := uint64(0)
	if s.hasCluster {
		hasCluster = 1
	}
	c0, c1 := halves(s.cluster)
	return hash(itemScalars, uint64(s.index), uint64(s.logTime), uint64(s.activeTime), s.lastDense, s.counts.Slots,
		hasCluster, c0, c1, uint64(s.level), xxhash.Sum64String(s.release))
}

// hashIdentity covers what never changes of a stream, unless it is deleted while
// forks of it live.
func (s *State) hashIdentity(id stream.ID, p place) uint64 {
	r := p.row()
	sum := hash(itemIdentity, uint64(id), uint64(r.created), uint64(r.expiry), uint64(r.limit),
		xxhash.Sum64String(p.page.names[p.at]), s.types.hash(r.contentType))
	if r.isFork() {
		f := p.side().fork
		sum += hash(itemFork, uint64(id), uint64(f.Parent), uint64(f.At), f.Sub, uint64(f.End), xxhash.Sum64String(string(f.From)))
	}
	if r.retained() {
		keep := p.side().retention
		sum += hash(itemRetention, uint64(id), keep.Age, keep.Bytes)
	}
	return sum
}

// hashRow covers what changes of a stream and has a fixed size.
func (s *State) hashRow(id stream.ID, p place) uint64 {
	r := p.row()
	var closer, forks uint64
	if d := p.side(); d != nil {
		forks = uint64(d.forks)
		if d.closer != 0 {
			closer = s.producers.hash(d.producers[d.closer-1].id)
		}
	}
	return hash(itemRow, uint64(id), uint64(r.start), uint64(r.tail), uint64(r.touched), uint64(r.flags), closer, forks)
}

func hashStreamSeq(id stream.ID, value string) uint64 {
	return hash(itemStreamSeq, uint64(id), xxhash.Sum64String(value))
}

func hashExtent(id stream.ID, e Extent) uint64 {
	return hash(itemExtent, uint64(id), uint64(e.First), uint64(e.Segment)<<32|uint64(e.Ordinal),
		uint64(e.packed)<<32|uint64(e.Bytes))
}

func (s *State) hashProducer(id stream.ID, p *producer) uint64 {
	return hash(itemProducer, uint64(id), s.producers.hash(p.id), p.epoch, p.seq, uint64(p.first), uint64(p.known),
		uint64(p.back[0])<<32|uint64(p.back[1]), uint64(p.back[2])<<32|uint64(p.back[3]))
}

// hashSegment covers what is fixed of a segment until it is doomed.
func hashSegment(slot uint32, g *Segment) uint64 {
	return hash(itemSegment, uint64(slot)<<32|uint64(g.Node), uint64(g.Epoch), g.Sequence, g.Size, uint64(g.Time), uint64(g.Level),
		uint64(g.Oldest), uint64(g.Newest), uint64(g.First), uint64(g.Last), uint64(g.Doomed))
}

// hashReferences covers what every append to a segment and every trim changes.
func hashReferences(slot uint32, g *Segment) uint64 {
	return hash(itemReferences, uint64(slot)<<32|uint64(g.Extents), g.Referenced)
}

// hashNode is the sum of the hashes of a node's items.
func hashNode(n *node) uint64 {
	i0, i1 := halves(n.Incarnation)
	sum := hash(itemNode, uint64(n.Node.Node), uint64(n.Epoch), i0, i1, xxhash.Sum64String(n.Address), uint64(n.Level),
		xxhash.Sum64String(n.Release), n.LastSeq, hashSequences(&n.used), hashSequences(&n.givenUp))
	if n.Gone {
		sum += hash(itemGone, uint64(n.Node.Node), uint64(n.Epoch))
	}
	return sum
}

// hashSequences chains the spans of a set.
func hashSequences(q *sequences) uint64 {
	h := uint64(len(q.spans))
	for _, s := range q.spans {
		h = hash(h, s.from, s.to)
	}
	return h
}

// hashStream is the sum of the hashes of all items of one stream.
func (s *State) hashStream(id stream.ID, p place) uint64 {
	sum := s.hashIdentity(id, p) + s.hashRow(id, p)
	for _, e := range p.extents().all(p.row().start) {
		sum += hashExtent(id, e)
	}
	d := p.side()
	if d == nil {
		return sum
	}
	if p.row().streamSeq() {
		sum += hashStreamSeq(id, d.streamSeq)
	}
	for i := range d.producers {
		sum += s.hashProducer(id, &d.producers[i])
	}
	return sum
}
