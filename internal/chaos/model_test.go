package chaos

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// one call of a history: from begin to end, which is math.MaxInt64 for never.
func operation(begin, end int64, in input, out output) porcupine.Operation {
	return porcupine.Operation{Input: &in, Output: &out, Call: begin, Return: end}
}

const never = math.MaxInt64

func added(id, count uint64) input { return input{kind: appending, id: id, count: count} }

func at(first, tail uint64) output {
	return output{verdict: done, first: first, firstKnown: true, tail: tail, tailKnown: true}
}

func content(ids ...uint64) output {
	out := output{verdict: done, tail: uint64(len(ids)), tailKnown: true}
	for _, id := range ids {
		out.content = fold(out.content, id)
	}
	return out
}

func TestTheModel(t *testing.T) {
	zero, two := uint64(0), uint64(2)
	create := operation(0, 1, input{kind: creating}, output{verdict: done})
	read := input{kind: reading}
	retried := input{kind: appending, id: 1, count: 1, producer: 1}
	for name, history := range map[string]struct {
		right bool
		calls []porcupine.Operation
	}{
		"one after the other":                  {true, []porcupine.Operation{operation(2, 3, added(1, 2), at(0, 2)), operation(4, 5, added(3, 1), at(2, 3)), operation(6, 7, read, content(1, 2, 3))}},
		"an order that time forbids":           {false, []porcupine.Operation{operation(2, 3, added(1, 1), at(1, 2)), operation(4, 5, added(2, 1), at(0, 1))}},
		"at the same time, in either order":    {true, []porcupine.Operation{operation(2, 5, added(1, 1), at(1, 2)), operation(3, 4, added(2, 1), at(0, 1))}},
		"two at one offset":                    {false, []porcupine.Operation{operation(2, 5, added(1, 1), at(0, 1)), operation(3, 4, added(2, 1), at(0, 1))}},
		"acknowledged and lost":                {false, []porcupine.Operation{operation(2, 3, added(1, 1), at(0, 1)), operation(4, 5, read, content())}},
		"unknown and there":                    {true, []porcupine.Operation{operation(2, never, added(1, 1), output{}), operation(4, 5, read, content(1))}},
		"unknown and there later":              {true, []porcupine.Operation{operation(2, never, added(1, 1), output{}), operation(4, 5, read, content()), operation(6, 7, read, content(1))}},
		"unknown and never there":              {true, []porcupine.Operation{operation(2, never, added(1, 1), output{}), operation(4, 5, read, content())}},
		"unknown and there twice":              {false, []porcupine.Operation{operation(2, never, added(1, 1), output{}), operation(4, 5, read, content(1, 1))}},
		"seen and gone":                        {false, []porcupine.Operation{operation(2, never, added(1, 1), output{}), operation(4, 5, read, content(1)), operation(6, 7, read, content())}},
		"a read of the past":                   {false, []porcupine.Operation{operation(2, 3, added(1, 1), at(0, 1)), operation(4, 5, added(2, 1), at(1, 2)), operation(6, 7, read, content(1))}},
		"retried and found":                    {true, []porcupine.Operation{operation(2, never, retried, output{}), operation(4, 5, retried, output{verdict: existed, firstKnown: true}), operation(6, 7, read, content(1))}},
		"retried and written":                  {true, []porcupine.Operation{operation(2, never, retried, output{}), operation(4, 5, retried, at(0, 1)), operation(6, 7, read, content(1))}},
		"retried and written twice":            {false, []porcupine.Operation{operation(2, 3, retried, at(0, 1)), operation(4, 5, retried, at(1, 2))}},
		"found and never written":              {false, []porcupine.Operation{operation(4, 5, retried, output{verdict: existed}), operation(6, 7, read, content())}},
		"a condition that held":                {true, []porcupine.Operation{operation(2, 3, input{kind: appending, id: 1, count: 1, match: &zero}, at(0, 1))}},
		"both of two that exclude each other":  {false, []porcupine.Operation{operation(2, 5, input{kind: appending, id: 1, count: 1, match: &zero}, at(0, 1)), operation(3, 4, input{kind: appending, id: 2, count: 1, match: &zero}, at(1, 2))}},
		"refused for a tail that was never":    {false, []porcupine.Operation{operation(2, 3, input{kind: appending, id: 1, count: 1, match: &two}, output{verdict: mismatched, tail: 1, tailKnown: true})}},
		"refused though the condition held":    {false, []porcupine.Operation{operation(2, 3, input{kind: appending, id: 1, count: 1, match: &zero}, output{verdict: mismatched})}},
		"a sequence that does not grow":        {false, []porcupine.Operation{operation(2, 3, input{kind: appending, id: 1, count: 1, seq: "b"}, at(0, 1)), operation(4, 5, input{kind: appending, id: 2, count: 1, seq: "a"}, at(1, 2))}},
		"an append after the close":            {false, []porcupine.Operation{operation(2, 3, input{kind: appending, closes: true}, at(0, 0)), operation(4, 5, added(1, 1), at(0, 1))}},
		"an append beside an unknown close":    {true, []porcupine.Operation{operation(2, never, input{kind: appending, closes: true}, output{}), operation(4, 5, added(1, 1), at(0, 1)), operation(6, 7, added(2, 1), output{verdict: closed, tail: 1, tailKnown: true})}},
		"open again after the close was seen":  {false, []porcupine.Operation{operation(2, never, input{kind: appending, closes: true}, output{}), operation(4, 5, added(1, 1), output{verdict: closed}), operation(6, 7, added(2, 1), at(0, 1))}},
		"deleted and made anew":                {true, []porcupine.Operation{operation(2, 3, added(1, 1), at(0, 1)), operation(4, 5, input{kind: deleting}, output{verdict: done}), operation(6, 7, read, output{verdict: missing}), operation(8, 9, input{kind: creating}, output{verdict: done}), operation(10, 11, read, content())}},
		"there after an acknowledged deletion": {false, []porcupine.Operation{operation(4, 5, input{kind: deleting}, output{verdict: done}), operation(6, 7, read, content())}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, history.right, porcupine.CheckOperations(model, append([]porcupine.Operation{create}, history.calls...)))
		})
	}
}

func TestContentIsCheckedRecordByRecord(t *testing.T) {
	h := &history{calls: []porcupine.Operation{
		operation(0, 1, added(1, 2), at(0, 2)),
		operation(2, never, added(3, 1), output{}),
		operation(4, 5, added(4, 1), output{verdict: mismatched}),
	}}
	require.NoError(t, h.verifyContent([]uint64{1, 2}))
	require.NoError(t, h.verifyContent([]uint64{1, 2, 3}))
	require.ErrorContains(t, h.verifyContent([]uint64{1}), "record 2 was acknowledged and is not there")
	require.ErrorContains(t, h.verifyContent([]uint64{3, 1, 2}), "record 1 was acknowledged at 0 and is at 1")
	require.ErrorContains(t, h.verifyContent([]uint64{1, 2, 3, 3}), "record 3 is there twice")
	require.ErrorContains(t, h.verifyContent([]uint64{1, 2, 4}), "record 4 at 2 was never sent, or refused")
}

func TestTheEndTellsOfCallsWithoutAnswer(t *testing.T) {
	retried := input{kind: appending, id: 5, count: 1, producer: 1}
	h := &history{calls: []porcupine.Operation{
		operation(0, never, input{kind: creating}, output{}),
		operation(1, 2, input{kind: creating}, output{verdict: existed}),
		operation(3, never, added(1, 2), output{}),
		operation(4, never, added(3, 1), output{}),
		operation(5, never, input{kind: appending, closes: true}, output{}),
		operation(6, never, retried, output{}),
		operation(7, never, retried, output{}),
		operation(8, 9, retried, output{verdict: existed}),
	}}
	calls := h.resolve(ending{content: []uint64{1, 2, 5}})
	var text []string
	for _, c := range calls {
		text = append(text, describe(c.Input.(*input), c.Output.(*output)))
	}
	require.Equal(t, []string{
		"create -> unknown", "create -> existed", "append 1 of 2 -> done first 0",
		"append 5 of 1 producer 1/0 -> done first 2", "append 5 of 1 producer 1/0 -> existed",
	}, text)
	require.EqualValues(t, 6, calls[3].Call)
	require.True(t, porcupine.CheckOperations(model, calls))

	h.calls[7] = operation(8, 9, retried, at(2, 3))
	require.Len(t, h.resolve(ending{content: []uint64{1, 2, 5}}), 4, "an answer says which try did it")
	require.Len(t, h.resolve(ending{content: []uint64{1, 2, 5}, closed: true}), 5, "the close may have happened")
}
