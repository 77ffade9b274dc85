package statemachine_test

import (
	"fmt"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// A node registers, makes a stream with its first two records, and tries an
// append that is refused.
func Example() {
	s := statemachine.New()
	v := s.View()
	propose := func(origin commands.Origin, command commands.Command) statemachine.Result {
		now := stream.Time(1_700_000_000_000) // both clocks, for once
		out := s.Apply(&commands.Entry{Index: v.Index() + 1, DatabaseTime: now, Payload: commands.Payload{
			Clock: now, Proposals: []commands.Proposal{{Origin: origin, Commands: []commands.Command{command}}},
		}})
		return out.Proposals[0].Results[0]
	}

	register := &commands.RegisterNode{Incarnation: commands.Incarnation{1}, Level: commands.Level}
	registered := propose(commands.RegistrationOrigin(register.Incarnation), register)
	fmt.Println("node", registered.Node, "epoch", registered.Epoch)

	origin := commands.Origin{Node: registered.Node, Epoch: registered.Epoch, Seq: 1}
	create := &commands.Create{Name: "logs/a", Config: stream.Config{ContentType: "text/plain"}}
	commit := propose(origin, commands.NewCommitSegment(0, 4096, []commands.Append{
		{Create: create, Records: 2, Bytes: 20},
		{ID: 1, Records: 1, Bytes: 10, HasMatch: true, Match: 7},
	}, nil))
	for _, a := range commit.Appends {
		fmt.Println(a.Verdict, "tail", a.Tail)
	}

	st, _ := v.Lookup("logs/a")
	for _, e := range v.Extents(st.ID, 0, 10) {
		fmt.Println(st.Info(), "segment", e.Segment, "record", e.Ordinal, "count", e.Count())
	}
	// Output:
	// node 1 epoch 1
	// accepted tail 2
	// match_failed tail 2
	// logs/a#1[0,2) segment 0 record 0 count 2
}
