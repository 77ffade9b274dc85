package statemachine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGivenUpIsNeverWhatWasUsed(t *testing.T) {
	s := New()
	n := &node{Node: Node{Node: 3, Epoch: 7}}
	s.nodes.list = append(s.nodes.list, n)
	view := s.View()
	require.False(t, view.GivenUp(3, 7, 5), "nothing was decided")
	n.givenUp.add(5)
	require.True(t, view.GivenUp(3, 7, 5))
	require.False(t, view.GivenUp(3, 6, 5), "another epoch")
	require.False(t, view.GivenUp(2, 7, 5), "another node")

	n.used.add(2)
	for i := range uint64(maxRanges + 1) { // the lowest gap closes, over a sequence that was used
		n.givenUp.add(2*i + 1)
	}
	require.True(t, n.givenUp.has(2))
	require.False(t, view.GivenUp(3, 7, 2))
	require.True(t, view.GivenUp(3, 7, 1))
}
