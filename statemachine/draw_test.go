package statemachine

import (
	"pgregory.net/rapid"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// drawEntry draws the next entry from a small world: six names, three
// producers, three nodes. It looks at the state, so that most commands are near
// the edge between accepted and refused.
func drawEntry(t *rapid.T, s *State) *commands.Entry {
	e := &commands.Entry{Index: s.Index() + 1}
	now := int64(s.logTime)
	e.DatabaseTime = stream.Time(now + rapid.SampledFrom([]int64{-5_000, 0, 1, 900, 4_000, 12_000, 45_000}).Draw(t, "database"))
	e.Clock = e.DatabaseTime + stream.Time(rapid.SampledFrom([]int64{0, 0, 0, -700, 60_000}).Draw(t, "clock"))
	d := drawer{t, s, map[commands.NodeID]uint64{}}
	for range rapid.IntRange(1, 3).Draw(t, "proposals") {
		e.Proposals = append(e.Proposals, d.proposal())
	}
	return e
}

type drawer struct {
	t    *rapid.T
	s    *State
	seqs map[commands.NodeID]uint64 // last sequences within the entry
}

func (d *drawer) chance(of int, what string) bool {
	return rapid.IntRange(1, of).Draw(d.t, what) == 1
}

func (d *drawer) proposal() commands.Proposal {
	if len(d.s.nodes.list) == 0 || d.chance(12, "register?") {
		m := d.registration()
		p := commands.Proposal{Origin: commands.RegistrationOrigin(m.Incarnation), Commands: []commands.Command{m}}
		if d.chance(10, "wrong origin?") {
			p.Origin.Seq++
		}
		return p
	}
	n := rapid.SampledFrom(d.s.nodes.list).Draw(d.t, "node")
	if d.seqs[n.Node.Node] == 0 {
		d.seqs[n.Node.Node] = n.LastSeq
	}
	d.seqs[n.Node.Node]++
	p := commands.Proposal{Origin: commands.Origin{Node: n.Node.Node, Epoch: n.Epoch, Seq: d.seqs[n.Node.Node]}}
	switch rapid.IntRange(1, 20).Draw(d.t, "origin") {
	case 1:
		p.Origin.Epoch--
	case 2:
		p.Origin.Epoch++
	case 3:
		p.Origin.Seq -= uint64(rapid.IntRange(1, 2).Draw(d.t, "repeat"))
	case 4:
		p.Origin.Node = 9
	}
	for range rapid.IntRange(1, 4).Draw(d.t, "commands") {
		p.Commands = append(p.Commands, d.command(n))
	}
	return p
}

func (d *drawer) registration() *commands.RegisterNode {
	return &commands.RegisterNode{
		Cluster:     commands.ClusterID{byte(rapid.SampledFrom([]int{1, 1, 1, 1, 2}).Draw(d.t, "cluster"))},
		Node:        commands.NodeID(rapid.IntRange(0, 3).Draw(d.t, "number")),
		Incarnation: commands.Incarnation{byte(rapid.IntRange(1, 30).Draw(d.t, "incarnation"))},
		Level:       uint32(rapid.SampledFrom([]int{1, 2, 2, 3}).Draw(d.t, "level")),
		Address:     "host",
		Previous:    commands.Incarnation{byte(rapid.SampledFrom([]int{0, 0, 1, 2, 3, 9}).Draw(d.t, "previous"))},
	}
}

// depart is one of a node that is there, most of the time.
func (d *drawer) depart() commands.Command {
	n := rapid.SampledFrom(d.s.nodes.list).Draw(d.t, "departs")
	epoch := n.Epoch - commands.Epoch(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(d.t, "other epoch"))
	return &commands.Depart{Node: n.Node.Node, Epoch: epoch}
}

func (d *drawer) command(n *node) commands.Command {
	switch rapid.IntRange(0, 28).Draw(d.t, "kind") {
	case 0, 1, 18:
		return d.create()
	case 2:
		return d.close()
	case 3:
		id := d.id()
		return &commands.Trim{ID: id, To: d.nearTail(id), Upkeep: d.chance(3, "upkeep?")}
	case 4, 19:
		return &commands.Delete{ID: d.id()}
	case 5:
		return &commands.Touch{IDs: []stream.ID{d.id(), d.id()}}
	case 6:
		return &commands.Expire{IDs: []stream.ID{d.id(), d.id(), d.id()}}
	case 7:
		return &commands.Tick{}
	case 8:
		return &commands.Checkpoint{At: 1024, Digest: 1}
	case 9:
		if d.chance(4, "activate?") {
			return &commands.Activate{Level: uint32(rapid.IntRange(0, 3).Draw(d.t, "level")), Release: "v9"}
		}
		return &commands.Tick{}
	case 28:
		if d.chance(3, "depart?") {
			return d.depart()
		}
		return &commands.Tick{}
	case 20:
		return &commands.Doom{Slots: d.slots()}
	case 21:
		return &commands.Collected{Slots: d.slots()}
	case 22:
		return d.pack(n)
	case 23, 24, 25, 26:
		return d.swap(n)
	default:
		return d.commit(n)
	}
}

// id is that of a stream that exists, most of the time.
func (d *drawer) id() stream.ID {
	if d.chance(8, "any id?") {
		return stream.MakeID(uint16(rapid.IntRange(0, 1).Draw(d.t, "log")), uint64(rapid.IntRange(0, int(d.s.lastDense)+1).Draw(d.t, "dense")))
	}
	var ids []stream.ID
	for _, name := range drawNames {
		if id, ok := d.s.names.get(string(name)); ok {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 1
	}
	return rapid.SampledFrom(ids).Draw(d.t, "id")
}

func (d *drawer) nearTail(id stream.ID) stream.Offset {
	st, _ := d.s.View().Stream(id)
	back := stream.Offset(rapid.SampledFrom([]int{0, 0, 0, 1, 2, 5}).Draw(d.t, "back"))
	if d.chance(10, "beyond?") {
		return st.Tail + back
	}
	return st.Tail - min(back, st.Tail)
}

var (
	drawNames     = []stream.Name{"a", "a/b", "b", "c", "d", "e"}
	drawProducers = []string{"p", "q", "r"}
)

func (d *drawer) create() *commands.Create {
	m := &commands.Create{Name: rapid.SampledFrom(drawNames).Draw(d.t, "name"), Closed: d.chance(6, "closed?")}
	if _, taken := d.s.names.get(string(m.Name)); taken {
		m.Name = rapid.SampledFrom(drawNames).Draw(d.t, "another name")
	}
	m.Config.ContentType = rapid.SampledFrom([]string{"text/plain", "text/plain", "Text/Plain; charset=x", "application/json"}).Draw(d.t, "type")
	e := &m.Config.Expiry
	switch rapid.IntRange(0, 5).Draw(d.t, "expiry") {
	case 0, 1:
		*e = stream.Expiry{Kind: stream.ExpiresIdle, TTL: rapid.SampledFrom([]uint64{0, 1, 20, 20, 60}).Draw(d.t, "ttl")}
	case 2:
		*e = stream.Expiry{Kind: stream.ExpiresAt, At: d.s.logTime + stream.Time(rapid.SampledFrom([]int{-1, 0, 1, 10_000}).Draw(d.t, "at"))}
	case 3:
		if d.chance(6, "invalid?") {
			*e = stream.Expiry{TTL: 1}
		}
	}
	if d.chance(3, "retention?") {
		m.Config.Retention = stream.Retention{
			Age:   rapid.SampledFrom([]uint64{0, 10, 10, 30}).Draw(d.t, "age"),
			Bytes: rapid.SampledFrom([]uint64{0, 100, 100, 200}).Draw(d.t, "bytes"),
		}
	}
	if d.chance(2, "fork?") {
		d.fork(m)
	}
	return m
}

// fork makes a create one of a fork: a new one, or what a stream was that is
// there.
func (d *drawer) fork(m *commands.Create) {
	m.Fork = &commands.Fork{Parent: d.id()}
	if d.chance(2, "inherits?") {
		m.Config = stream.Config{}
	}
	if there, ok := d.s.View().Lookup(m.Name); ok && there.Fork != nil && d.chance(2, "again?") {
		m.Config, m.Closed = stream.Config{}, there.Closed
		m.Fork.Parent, m.Fork.Sub = there.Fork.Parent, there.Fork.Sub
		at := there.Fork.At
		m.Fork.At = &at
		return
	}
	switch rapid.IntRange(1, 4).Draw(d.t, "fork at") {
	case 1:
	case 2:
		st, _ := d.s.View().Stream(m.Fork.Parent)
		at := st.Start - min(st.Start, stream.Offset(rapid.IntRange(0, 1).Draw(d.t, "below")))
		m.Fork.At = &at
	default:
		at := d.nearTail(m.Fork.Parent)
		m.Fork.At = &at
	}
	if m.Fork.At != nil || d.chance(8, "sub without offset?") {
		m.Fork.Sub = rapid.SampledFrom([]uint64{0, 0, 1, 2, 3, 7}).Draw(d.t, "sub")
	}
	if m.Fork.Sub > 0 && d.chance(2, "cut?") {
		m.Fork.Cut = uint32(m.Fork.Sub)
		if d.chance(8, "wrong cut?") {
			m.Fork.Cut++
		}
	}
}

func (d *drawer) close() *commands.Close {
	a := d.request(d.id())
	m := &commands.Close{ID: a.ID}
	if a.HasProducer {
		m.Producer = &a.Producer
	}
	if a.HasMatch {
		m.Match = &a.Match
	}
	if a.HasStreamSeq {
		value := string(a.StreamSeq)
		m.StreamSeq = &value
	}
	return m
}

// request is what appends and closes have in common.
func (d *drawer) request(id stream.ID) commands.Append {
	a := commands.Append{ID: id}
	if d.chance(2, "producer?") {
		a.HasProducer = true
		a.Producer = stream.Producer{ID: rapid.SampledFrom(drawProducers).Draw(d.t, "producer")}
		if p, ok := d.s.find(id); ok {
			if known := d.s.known(p.side(), a.Producer.ID); known != nil {
				a.Producer.Epoch, a.Producer.Seq = known.epoch, known.seq+1
			}
		}
		switch rapid.IntRange(1, 8).Draw(d.t, "sequence") {
		case 1:
			a.Producer.Epoch, a.Producer.Seq = a.Producer.Epoch+1, 0
		case 2:
			a.Producer.Epoch++
		case 3:
			a.Producer.Epoch -= min(1, a.Producer.Epoch)
		case 4, 5:
			a.Producer.Seq -= min(uint64(rapid.IntRange(1, 7).Draw(d.t, "retry")), a.Producer.Seq)
		case 6:
			a.Producer.Seq++
		}
	}
	if d.chance(5, "match?") {
		a.HasMatch, a.Match = true, d.nearTail(id)
	}
	if d.chance(5, "stream-seq?") {
		a.HasStreamSeq, a.StreamSeq = true, []byte(rapid.StringMatching(`[a-c]{0,3}`).Draw(d.t, "stream-seq"))
	}
	return a
}

func (d *drawer) commit(n *node) *commands.CommitSegment {
	sequence, givenUp := d.sequence(n)
	appends := make([]commands.Append, rapid.IntRange(1, 5).Draw(d.t, "appends"))
	for i := range appends {
		appends[i] = d.append()
	}
	return commands.NewCommitSegment(sequence, 1<<20, appends, givenUp)
}

// sequence is that of a segment, and some that are given up.
func (d *drawer) sequence(n *node) (sequence uint64, givenUp []uint64) {
	if spans := n.used.spans; len(spans) > 0 {
		sequence = spans[len(spans)-1].to + 1
	}
	switch rapid.IntRange(1, 8).Draw(d.t, "disorder") {
	case 1:
		sequence += uint64(rapid.IntRange(1, 3).Draw(d.t, "ahead"))
	case 2, 3:
		sequence -= min(uint64(rapid.IntRange(1, 4).Draw(d.t, "behind")), sequence)
	}
	if d.chance(6, "give up?") {
		givenUp = append(givenUp, sequence+uint64(rapid.IntRange(0, 2).Draw(d.t, "given up")))
	}
	return sequence, givenUp
}

func (d *drawer) append() commands.Append {
	a := d.request(d.id())
	if d.chance(5, "create?") {
		a = d.request(0)
		a.Create = d.create()
	}
	a.Records = uint32(rapid.IntRange(1, 4).Draw(d.t, "records"))
	a.Bytes = uint64(rapid.IntRange(0, 100).Draw(d.t, "bytes"))
	a.Close = d.chance(12, "close?")
	return a
}

// history is entries that follow each other.
var history = rapid.Custom(func(t *rapid.T) []*commands.Entry {
	s := New()
	entries := make([]*commands.Entry, rapid.IntRange(1, 40).Draw(t, "entries"))
	for i := range entries {
		entries[i] = drawEntry(t, s)
		s.Apply(entries[i])
	}
	return entries
})
