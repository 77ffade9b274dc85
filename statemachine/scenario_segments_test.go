package statemachine

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// How scripts speak of segments.

func (x *scenario) slots(words []string) (slots []uint32) {
	for _, w := range words {
		slots = append(slots, uint32(x.number(w)))
	}
	return slots
}

func (x *scenario) givenUp(l line) (sequences []uint64) {
	if list, ok := l.keys["given-up"]; ok {
		for n := range strings.SplitSeq(list, ",") {
			sequences = append(sequences, x.number(n))
		}
	}
	return sequences
}

func (x *scenario) pack(l line) *commands.Pack {
	m := &commands.Pack{
		Sequence: x.number(l.words[0]), Size: x.number(l.keys["size"]), Level: 1, GivenUp: x.givenUp(l),
		Oldest: stream.Time(x.number(l.keys["oldest"])), Newest: stream.Time(x.number(l.keys["newest"])),
		First: stream.ID(x.number(l.keys["first"])), Last: stream.ID(x.number(l.keys["last"])),
	}
	if level, ok := l.keys["level"]; ok {
		m.Level = uint8(x.number(level))
	}
	return m
}

func (x *scenario) swap(e *commands.Entry, l line, rest []line) []line {
	var runs []commands.Run
	for len(rest) > 0 && rest[0].verb == "run" {
		words := rest[0].words
		run := commands.Run{
			ID: stream.ID(x.number(words[0])), First: stream.Offset(x.number(words[1])), Ordinal: uint32(x.number(words[3])),
			Bytes: uint32(x.number(rest[0].keys["bytes"])),
		}
		for _, word := range words[4:] {
			run.Pieces = append(run.Pieces, x.piece(word))
		}
		runs = append(runs, run)
		rest = rest[1:]
	}
	x.add(e, commands.NewSwap(uint32(x.number(l.words[0])), x.number(l.words[1]), runs))
	return rest
}

// piece is <slot>:<record>+<count> or <slot>:<record>+cut.
func (x *scenario) piece(word string) commands.Piece {
	slot, place, ok := strings.Cut(word, ":")
	require.True(x.t, ok, word)
	record, count, ok := strings.Cut(place, "+")
	require.True(x.t, ok, word)
	p := commands.Piece{Slot: uint32(x.number(slot)), Ordinal: uint32(x.number(record)), Count: 1, Cut: count == "cut"}
	if !p.Cut {
		p.Count = uint32(x.number(count))
	}
	return p
}
