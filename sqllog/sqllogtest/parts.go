package sqllogtest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
)

// testParts: several nodes' proposals in one row, each found by its origin, each
// proposer's last row checked, all or nothing.
func testParts(t *testing.T, b Backend) {
	one := &proposer{log: b.Log, node: 1}
	one.append(t, 3)
	rows := readAll(t, b.Log)
	part := func(node commands.NodeID, seq uint64, applied commands.Position) commands.Part {
		return commands.Part{Origin: commands.Origin{Node: node, Epoch: 1, Seq: seq}, Applied: applied, Digest: uint64(node)<<62 | seq}
	}
	shared := func(parts ...commands.Part) commands.Insert {
		return commands.Insert{Origin: parts[0].Origin, Applied: parts[0].Applied, Payload: []byte("of several"), Parts: parts}
	}
	in := shared(part(2, 1, rows[0].Position()), part(3, 1, rows[2].Position()), part(4, 1, commands.Position{}))
	if b.Log.Exclusive() {
		_, err := b.Log.Append(t.Context(), in)
		require.Error(t, err, "there is nobody to insert for")
		return
	}
	at, err := b.Log.Append(t.Context(), in)
	require.NoError(t, err)
	for _, p := range in.Parts {
		found, digest, ok, err := b.peer(t).FindOrigin(t.Context(), p.Origin, 0)
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, at, found)
		assert.Equal(t, p.Digest, digest)
	}

	_, err = b.Log.Append(t.Context(), shared(part(2, 2, at.Position), part(3, 1, at.Position)))
	require.ErrorIs(t, err, commands.ErrDuplicateOrigin)
	_, err = b.Log.Append(t.Context(), shared(part(2, 2, at.Position), part(3, 2, commands.Position{Index: at.Index, Row: at.Row + 1})))
	require.ErrorIs(t, err, commands.ErrLostTail)
	_, _, found, err := b.Log.FindOrigin(t.Context(), part(2, 2, at.Position).Origin, 0)
	require.NoError(t, err)
	assert.False(t, found, "all or nothing")

	all := readAll(t, b.Log)
	archiveUpTo(t, b.Log, all[len(all)-1])
	_, err = b.Log.Truncate(t.Context(), at.Index, 100)
	require.NoError(t, err)
	for _, p := range in.Parts {
		_, _, _, err := b.Log.FindOrigin(t.Context(), p.Origin, 0)
		require.ErrorIs(t, err, commands.ErrTruncated, "its origins left with the row")
	}
}
