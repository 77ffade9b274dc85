package commands

import (
	"fmt"

	"github.com/picomq/picomq/stream"
)

// MaxPayload bounds the encoded bytes of one log row.
const MaxPayload = 16 << 20

const payloadFormat = 1

// UnknownError is a row that this binary cannot read because it is newer.
type UnknownError struct {
	Format  uint64 // payload format, when that is what is unknown
	Kind    Kind
	Version uint64
}

// Error says what is unknown and what to do.
func (e *UnknownError) Error() string {
	if e.Format != 0 {
		return fmt.Sprintf("payload format %d is newer than this binary, which reads format %d (feature level %d): run a newer release", e.Format, payloadFormat, Level)
	}
	return fmt.Sprintf("command kind %d version %d is newer than this binary (feature level %d): run a newer release", e.Kind, e.Version, Level)
}

// Encode writes the payload of a log row.
func (p *Payload) Encode() []byte {
	c := &coder{}
	p.code(c)
	return c.buf
}

// DecodePayload reads the payload of a log row. The commands' columns alias
// data. Whatever data holds, it allocates at most 96 bytes per byte of it and
// one kilobyte: the dearest are commands without fields, 5 bytes each. The
// error is an [*UnknownError] when the row is newer than this binary.
func DecodePayload(data []byte) (Payload, error) {
	c := &coder{buf: data, decoding: true}
	var p Payload
	if len(data) > MaxPayload {
		return p, fmt.Errorf("payload of %d bytes is longer than %d", len(data), MaxPayload)
	}
	p.code(c)
	if c.err == nil && len(c.buf) != 0 {
		c.fail("%d bytes after the end", len(c.buf))
	}
	if c.err != nil {
		return Payload{}, fmt.Errorf("decode payload: %w", c.err)
	}
	return p, nil
}

func (p *Payload) code(c *coder) {
	c.open()
	var format uint64
	if !c.decoding {
		format = payloadFormat
	}
	number(c, 1, &format)
	switch {
	case c.err != nil || format == payloadFormat:
	case format == 0:
		c.fail("the payload format is missing")
	default:
		c.err = &UnknownError{Format: format}
	}
	c.signed(2, (*int64)(&p.Clock))
	list(c, 3, 2, &p.Proposals, func(c *coder, p *Proposal) {
		c.open()
		number(c, 1, &p.Origin.Node)
		number(c, 2, &p.Origin.Epoch)
		number(c, 3, &p.Origin.Seq)
		list(c, 4, 5, &p.Commands, codeCommand)
		c.close()
	})
	c.close()
}

// codeCommand writes or reads [kind, version, fields].
func codeCommand(c *coder, cmd *Command) {
	var kind, version uint64
	if !c.decoding {
		kind, version = uint64((*cmd).Kind()), 1
	}
	c.array(3)
	c.uint(&kind)
	c.uint(&version)
	if c.decoding {
		if c.err != nil {
			return
		}
		if kind > 255 {
			c.err = &UnknownError{Kind: 255, Version: version}
			return
		}
		*cmd = newCommand(Kind(kind), version)
		if *cmd == nil {
			c.err = &UnknownError{Kind: Kind(kind), Version: version}
			return
		}
	}
	c.open()
	(*cmd).code(c)
	c.close()
}

func (m *RegisterNode) code(c *coder) {
	c.fixed(1, m.Cluster[:])
	number(c, 2, &m.Node)
	c.fixed(3, m.Incarnation[:])
	text(c, 4, &m.Address)
	number(c, 5, &m.Level)
	text(c, 6, &m.Release)
	c.fixed(7, m.Previous[:])
}

func (m *CommitSegment) code(c *coder) {
	number(c, 1, &m.Sequence)
	number(c, 2, &m.Size)
	number(c, 3, &m.Count)
	for i, column := range []*[]byte{&m.IDs, &m.Records, &m.Bytes, &m.Flags, &m.Producers, &m.Matches, &m.StreamSeqs} {
		c.bytes(uint64(4+i), column)
	}
	list(c, 11, 1, &m.ProducerIDs, func(c *coder, s *string) { c.str(s) })
	list(c, 12, 2, &m.Creates, func(c *coder, m *Create) {
		c.open()
		m.code(c)
		c.close()
	})
	codeGivenUp(c, 13, &m.GivenUp)
	if c.decoding && c.err == nil {
		c.err = m.check()
	}
}

func (m *Create) code(c *coder) {
	text(c, 1, &m.Name)
	text(c, 2, &m.Config.ContentType)
	number(c, 3, &m.Config.Expiry.Kind)
	number(c, 4, &m.Config.Expiry.TTL)
	c.signed(5, (*int64)(&m.Config.Expiry.At))
	c.flag(6, &m.Closed)
	optional(c, 7, &m.Fork, func(c *coder, f *Fork) {
		c.open()
		number(c, 1, &f.Parent)
		optional(c, 2, &f.At, func(c *coder, o *stream.Offset) { c.uint((*uint64)(o)) })
		number(c, 3, &f.Sub)
		number(c, 4, &f.Cut)
		c.close()
	})
	number(c, 8, &m.Config.Retention.Age)
	number(c, 9, &m.Config.Retention.Bytes)
}

func (m *Close) code(c *coder) {
	number(c, 1, &m.ID)
	optional(c, 2, &m.Producer, func(c *coder, p *stream.Producer) {
		c.open()
		text(c, 1, &p.ID)
		number(c, 2, &p.Epoch)
		number(c, 3, &p.Seq)
		c.close()
	})
	optional(c, 3, &m.Match, func(c *coder, o *stream.Offset) { c.uint((*uint64)(o)) })
	optional(c, 4, &m.StreamSeq, func(c *coder, s *string) { c.str(s) })
}

func (m *Trim) code(c *coder) {
	number(c, 1, &m.ID)
	number(c, 2, &m.To)
	c.flag(3, &m.Upkeep)
}

func (m *Delete) code(c *coder) { number(c, 1, &m.ID) }

func (m *Touch) code(c *coder) { codeIDs(c, &m.IDs) }

func (m *Expire) code(c *coder) { codeIDs(c, &m.IDs) }

func codeIDs(c *coder, ids *[]stream.ID) {
	list(c, 1, 1, ids, func(c *coder, id *stream.ID) { c.uint((*uint64)(id)) })
	if c.decoding && len(*ids) > MaxIDs {
		c.fail("%d ids; at most %d are allowed", len(*ids), MaxIDs)
	}
}

func (m *Tick) code(*coder) {}

func (m *Checkpoint) code(c *coder) {
	number(c, 1, &m.At)
	number(c, 2, &m.Digest)
}

func (m *Activate) code(c *coder) {
	number(c, 1, &m.Level)
	text(c, 2, &m.Release)
}

func (m *Depart) code(c *coder) {
	number(c, 1, &m.Node)
	number(c, 2, &m.Epoch)
}

func (m *Doom) code(c *coder) { codeSlots(c, &m.Slots) }

func (m *Collected) code(c *coder) { codeSlots(c, &m.Slots) }

func codeSlots(c *coder, slots *[]uint32) {
	list(c, 1, 1, slots, func(c *coder, slot *uint32) {
		n := uint64(*slot)
		c.uint(&n)
		*slot = uint32(n)
		if uint64(*slot) != n {
			c.fail("slot %d does not fit", n)
		}
	})
	if c.decoding && len(*slots) > MaxSlots {
		c.fail("%d slots; at most %d are allowed", len(*slots), MaxSlots)
	}
}

func (m *Pack) code(c *coder) {
	number(c, 1, &m.Sequence)
	number(c, 2, &m.Size)
	number(c, 3, &m.Level)
	c.signed(4, (*int64)(&m.Oldest))
	c.signed(5, (*int64)(&m.Newest))
	number(c, 6, &m.First)
	number(c, 7, &m.Last)
	codeGivenUp(c, 8, &m.GivenUp)
	if c.decoding && len(m.GivenUp) > MaxGivenUp {
		c.fail("%d sequences given up; at most %d are allowed", len(m.GivenUp), MaxGivenUp)
	}
}

func codeGivenUp(c *coder, key uint64, sequences *[]uint64) {
	list(c, key, 1, sequences, func(c *coder, v *uint64) { c.uint(v) })
}

func (m *Swap) code(c *coder) {
	number(c, 1, &m.Slot)
	number(c, 2, &m.Sequence)
	number(c, 3, &m.Count)
	for i, column := range []*[]byte{&m.IDs, &m.Firsts, &m.Ordinals, &m.Bytes, &m.Lengths, &m.Slots, &m.Froms, &m.Counts} {
		c.bytes(uint64(4+i), column)
	}
	if c.decoding && c.err == nil {
		c.err = m.check()
	}
}
