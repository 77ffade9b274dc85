package statemachine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/picomq/picomq/stream"
)

// dump prints the whole state in a canonical form: what two equal states print
// is equal, however they came about.
func (s *State) dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, "index %d log %d active %d level %d", s.index, s.logTime, s.activeTime, s.level)
	if s.release != "" {
		fmt.Fprintf(&b, " release %s", s.release)
	}
	b.WriteByte('\n')
	for _, n := range s.nodes.list {
		fmt.Fprintf(&b, "node %d epoch %d incarnation %.2s level %d last %d", n.Node.Node, n.Epoch, n.Incarnation, n.Level, n.LastSeq)
		dumpSequences(&b, " used", &n.used)
		dumpSequences(&b, " given-up", &n.givenUp)
		if n.Gone {
			b.WriteString(" gone")
		}
		b.WriteByte('\n')
	}
	for slot := range uint32(s.counts.Slots) {
		dumpSegment(&b, s, slot)
	}
	for dense := uint64(1); dense <= s.lastDense; dense++ {
		if p, ok := s.find(stream.MakeID(0, dense)); ok {
			s.dumpStream(&b, dense, p)
		}
	}
	return b.String()
}

func dumpSegment(b *strings.Builder, s *State, slot uint32) {
	g, ok := s.View().Segment(slot)
	if !ok {
		fmt.Fprintf(b, "segment %d is free\n", slot)
		return
	}
	fmt.Fprintf(b, "segment %d is %d/%d/%d size %d referenced %d extents %d time %d",
		slot, g.Node, g.Epoch, g.Sequence, g.Size, g.Referenced, g.Extents, g.Time)
	if g.Level > 0 {
		fmt.Fprintf(b, " level %d of %d-%d", g.Level, g.Oldest, g.Newest)
	}
	if g.Doomed != 0 {
		fmt.Fprintf(b, " doomed %d", g.Doomed)
	}
	b.WriteByte('\n')
}

func dumpSequences(b *strings.Builder, title string, q *sequences) {
	for i, s := range q.spans {
		if i == 0 {
			b.WriteString(title)
		}
		fmt.Fprintf(b, " %d-%d", s.from, s.to)
	}
}

func (s *State) dumpStream(b *strings.Builder, dense uint64, p place) {
	r := p.row()
	fmt.Fprintf(b, "stream %d %s [%d,%d)", dense, p.page.names[p.at], r.start, r.tail)
	if t := s.types.value(r.contentType); t != "" {
		fmt.Fprintf(b, " type %q", t)
	}
	fmt.Fprintf(b, " created %d", r.created)
	switch r.expiry {
	case stream.ExpiresIdle:
		fmt.Fprintf(b, " ttl %d touched %d", r.limit, r.touched)
	case stream.ExpiresAt:
		fmt.Fprintf(b, " at %d", r.limit)
	case stream.ExpiresNever:
	}
	d := p.side()
	if r.retained() {
		fmt.Fprintf(b, " keeps %d s %d bytes", d.retention.Age, d.retention.Bytes)
	}
	if r.deleted() {
		b.WriteString(" deleted")
	}
	if r.isFork() {
		f := d.fork
		fmt.Fprintf(b, " fork of %d %s at %d", f.Parent, f.From, f.At)
		if f.Sub > 0 {
			fmt.Fprintf(b, " sub %d end %d", f.Sub, f.End)
		}
	}
	if r.forked() {
		fmt.Fprintf(b, " forks %d", d.forks)
	}
	if r.closed() {
		b.WriteString(" closed")
		if d != nil && d.closer > 0 {
			fmt.Fprintf(b, " by %s", s.producers.value(d.producers[d.closer-1].id))
		}
	}
	if r.streamSeq() {
		fmt.Fprintf(b, " stream-seq %s", d.streamSeq)
	}
	b.WriteByte('\n')
	for _, e := range p.extents().all(p.row().start) {
		bytes := "bytes"
		if e.Cut() {
			bytes = "cut to"
		}
		fmt.Fprintf(b, "  extent %d+%d segment %d record %d %s %d\n", e.First, e.Count(), e.Segment, e.Ordinal, bytes, e.Bytes)
	}
	if d != nil {
		s.dumpProducers(b, d)
	}
}

func (s *State) dumpProducers(b *strings.Builder, d *side) {
	var lines []string
	for i := range d.producers {
		p := &d.producers[i]
		line := fmt.Sprintf("  producer %s epoch %d known", s.producers.value(p.id), p.epoch)
		for seq := p.seq; ; seq-- {
			first, ok := p.firstOf(seq)
			if !ok {
				break
			}
			line += fmt.Sprintf(" %d@%d", seq, first)
			if seq == 0 {
				break
			}
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(lines, ""))
}
