package statemachine

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

func TestSmoke(t *testing.T) {
	s := New()
	inc := commands.Incarnation{1, 2, 3}
	out := s.Apply(&commands.Entry{Index: 1, DatabaseTime: 1000, Payload: commands.Payload{Clock: 1000, Proposals: []commands.Proposal{{
		Origin: commands.RegistrationOrigin(inc), Commands: []commands.Command{&commands.RegisterNode{Incarnation: inc, Level: 1}},
	}}}})
	require.Equal(t, Accepted, out.Proposals[0].Results[0].Verdict)
	c := commands.NewCommitSegment(0, 1000, []commands.Append{
		{Create: &commands.Create{Name: "a/b"}, Records: 3, Bytes: 100},
		{Create: &commands.Create{Name: "a/b"}, Records: 3, Bytes: 100},
		{ID: 1, Records: 2, Bytes: 50, HasProducer: true, Producer: stream.Producer{ID: "p"}},
	}, nil)
	out = s.Apply(&commands.Entry{Index: 2, DatabaseTime: 1000, Payload: commands.Payload{Clock: 1000, Proposals: []commands.Proposal{{
		Origin: commands.Origin{Node: 1, Epoch: 1, Seq: 1}, Commands: []commands.Command{c, &commands.Trim{ID: 1, To: 1}},
	}}}})
	t.Logf("%+v", out)
	require.Equal(t, s.recompute(), s.items)
	var b bytes.Buffer
	require.NoError(t, s.BeginSnapshot().Encode(&b))
	r, err := Restore(&b)
	require.NoError(t, err)
	require.Equal(t, s.Digest(), r.Digest())
	page, more := r.View().List("a/", "", 10)
	t.Logf("%+v %v %+v", page, more, r.View().Extents(1, 0, 10))
}
