package statemachine

import (
	"slices"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// model is the rules again, written to be obvious: maps, one record at a time,
// a producer's whole history.
type model struct {
	index      commands.Index
	logTime    stream.Time
	activeTime int64
	lastDense  uint64
	cluster    *commands.ClusterID
	level      uint32
	nodes      map[commands.NodeID]*modelNode
	streams    map[stream.Name]*modelStream
	forks      []modelFork
	segments   []*Segment // by slot; nil where there is none
	changed    []stream.ID
}

type modelNode struct {
	epoch       commands.Epoch
	incarnation commands.Incarnation
	level       uint32
	last        uint64
	gone        bool
	used, given map[uint64]bool
}

type modelStream struct {
	info      stream.Info
	deleted   bool
	touched   int64
	records   []modelRecord
	producers map[string]*modelProducer
	streamSeq *string
}

// modelFork is an edge of the family tree. Live forks are counted by looking at
// all of them.
type modelFork struct{ parent, child stream.ID }

type modelProducer struct {
	epoch  uint64
	firsts []stream.Offset // of requests 0, 1, 2, … of the epoch
}

func newModel() *model {
	return &model{level: 1, nodes: map[commands.NodeID]*modelNode{}, streams: map[stream.Name]*modelStream{}}
}

func (m *model) apply(e *commands.Entry) *Outcome {
	now := max(m.logTime, min(e.DatabaseTime, e.Clock))
	if m.index > 0 {
		m.activeTime += min(int64(now-m.logTime), 30_000)
	}
	m.logTime, m.index, m.changed = now, e.Index, nil
	out := &Outcome{Index: e.Index, Time: now}
	for _, p := range e.Proposals {
		out.Proposals = append(out.Proposals, m.proposal(p))
	}
	out.Changed = slices.Compact(m.changed)
	return out
}

func (m *model) proposal(p commands.Proposal) ProposalOutcome {
	if p.Origin.Node == 0 {
		r, ok := p.Commands[0].(*commands.RegisterNode)
		if !ok || p.Origin != commands.RegistrationOrigin(r.Incarnation) {
			return ProposalOutcome{Status: Unregistered}
		}
		return ProposalOutcome{Results: []Result{m.register(r)}}
	}
	n := m.nodes[p.Origin.Node]
	switch {
	case n == nil || p.Origin.Epoch > n.epoch:
		return ProposalOutcome{Status: Unregistered}
	case p.Origin.Epoch < n.epoch:
		return ProposalOutcome{Status: Fenced}
	case p.Origin.Seq <= n.last:
		return ProposalOutcome{Status: AlreadyApplied}
	case n.gone:
		return ProposalOutcome{Status: Fenced}
	}
	n.last = p.Origin.Seq
	out := ProposalOutcome{}
	for _, c := range p.Commands {
		if n.gone {
			out.Results = append(out.Results, verdict(Invalid))
			continue
		}
		out.Results = append(out.Results, m.command(p.Origin.Node, n, c))
	}
	return out
}

func (m *model) register(r *commands.RegisterNode) Result {
	if m.cluster != nil && *m.cluster != r.Cluster {
		return verdict(WrongCluster)
	}
	for id, n := range m.nodes {
		if n.incarnation == r.Incarnation {
			if r.Node != 0 && r.Node != id && r.Previous == (commands.Incarnation{}) {
				return verdict(Invalid)
			}
			return Result{AppendResult: AppendResult{Verdict: Accepted}, Node: id, Epoch: n.epoch}
		}
	}
	if r.Level < m.level {
		return verdict(LevelTooLow)
	}
	lives := func(id commands.NodeID) bool { return m.nodes[id] != nil && !m.nodes[id].gone }
	id := r.Node
	if id == 0 || (r.Previous != commands.Incarnation{} && lives(id) && m.nodes[id].incarnation != r.Previous) {
		for id = 1; lives(id); id++ {
		}
	}
	epoch := commands.Epoch(m.index)
	if n := m.nodes[id]; n != nil && n.epoch == epoch {
		return verdict(NodeTaken)
	}
	m.cluster = &r.Cluster
	m.nodes[id] = &modelNode{
		epoch: epoch, incarnation: r.Incarnation, level: r.Level, used: map[uint64]bool{}, given: map[uint64]bool{},
	}
	return Result{AppendResult: AppendResult{Verdict: Accepted}, Node: id, Epoch: epoch}
}

func verdict(v Verdict) Result { return Result{AppendResult: AppendResult{Verdict: v}} }

func (m *model) command(id commands.NodeID, n *modelNode, command commands.Command) Result {
	switch c := command.(type) {
	case *commands.CommitSegment:
		return m.commit(id, n, c)
	case *commands.Create:
		return Result{AppendResult: m.create(c)}
	case *commands.Close:
		return Result{AppendResult: m.close(c)}
	case *commands.Trim:
		return Result{AppendResult: m.trim(c)}
	case *commands.Delete:
		return Result{AppendResult: m.delete(c)}
	case *commands.Touch:
		for _, id := range c.IDs {
			if st := m.live(id); st != nil {
				m.touch(st)
			}
		}
		return verdict(Accepted)
	case *commands.Expire:
		out := verdict(NotDue)
		for _, id := range c.IDs {
			if st := m.find(id); st != nil && m.due(st) {
				m.remove(st)
				out.Verdict, out.Removed = Accepted, out.Removed+1
			}
		}
		return out
	case *commands.Checkpoint:
		return verdict(NotFound) // no history drawn is long enough to have one
	case *commands.Activate:
		return verdict(m.activate(c))
	case *commands.Depart:
		other := m.nodes[c.Node]
		if other == nil || other.gone || other.epoch != c.Epoch {
			return verdict(NotFound)
		}
		other.gone = true
		return verdict(Accepted)
	case *commands.Doom:
		return m.doom(c)
	case *commands.Collected:
		return m.collected(c)
	case *commands.Pack:
		return m.pack(id, n, c)
	case *commands.Swap:
		return m.swap(id, n, c)
	default:
		return verdict(Accepted)
	}
}

func (m *model) activate(c *commands.Activate) Verdict {
	for _, n := range m.nodes {
		if !n.gone && n.level < c.Level {
			return LevelRefused
		}
	}
	if c.Level <= m.level {
		return LevelRefused
	}
	m.level = c.Level
	return Accepted
}

func (m *model) find(id stream.ID) *modelStream {
	for _, st := range m.streams {
		if st.info.ID == id {
			return st
		}
	}
	return nil
}

func (m *model) live(id stream.ID) *modelStream {
	if st := m.find(id); st != nil && !m.due(st) {
		return st
	}
	return nil
}

func (m *model) due(st *modelStream) bool {
	if st.deleted && m.liveForks(st) == 0 {
		return true
	}
	switch e := st.info.Config.Expiry; e.Kind {
	case stream.ExpiresIdle:
		return m.activeTime-st.touched >= int64(e.TTL)*1000
	case stream.ExpiresAt:
		return m.logTime >= e.At
	default:
		return false
	}
}

func (m *model) touch(st *modelStream) { st.touched = m.activeTime }

func (st *modelStream) answer(v Verdict) AppendResult {
	return AppendResult{Verdict: v, ID: st.info.ID, Start: st.info.Start, Tail: st.info.Tail, Closed: st.info.Closed}
}

func (m *model) trim(c *commands.Trim) AppendResult {
	st := m.live(c.ID)
	if st == nil {
		return AppendResult{Verdict: NotFound}
	}
	if st.deleted {
		return st.answer(Deleted)
	}
	for len(st.records) > 0 && st.records[0].offset < c.To {
		st.records = st.records[1:]
		st.info.Start++
	}
	if !c.Upkeep {
		m.touch(st)
	}
	return st.answer(Accepted)
}

func (m *model) close(c *commands.Close) AppendResult {
	st := m.live(c.ID)
	if st == nil {
		return AppendResult{Verdict: NotFound}
	}
	if st.deleted {
		return st.answer(Deleted)
	}
	if st.info.Closed && c.Producer == nil {
		if c.Match != nil && *c.Match != st.info.Tail {
			return st.answer(MatchFailed)
		}
		m.touch(st)
		out := st.answer(Accepted)
		out.First, out.FirstKnown = st.info.Tail, true
		return out
	}
	return m.write(st, c.Producer, c.Match, c.StreamSeq, segmentName{}, 0, 0, true, nil)
}

func (m *model) commit(id commands.NodeID, n *modelNode, c *commands.CommitSegment) Result {
	if v := n.spend(c.Sequence, c.GivenUp); v != Accepted {
		return verdict(v)
	}
	g := Segment{
		Node: id, Epoch: n.epoch, Sequence: c.Sequence, Size: c.Size, Time: m.logTime, Oldest: m.logTime, Newest: m.logTime,
	}
	slot := m.addSegment(g)
	out := verdict(Accepted)
	out.Segment = slot
	it := c.Appends()
	var a commands.Append
	for ordinal := uint32(0); it.Next(&a); ordinal += a.Records {
		out.Appends = append(out.Appends, m.append(&a, nameOf(&g), ordinal))
	}
	return out
}

func (m *model) append(a *commands.Append, in segmentName, ordinal uint32) AppendResult {
	var producer *stream.Producer
	if a.HasProducer {
		producer = &a.Producer
	}
	var match *stream.Offset
	if a.HasMatch {
		match = &a.Match
	}
	var streamSeq *string
	if a.HasStreamSeq {
		value := string(a.StreamSeq)
		streamSeq = &value
	}
	if a.Create == nil {
		st := m.live(a.ID)
		if st == nil {
			return AppendResult{Verdict: NotFound}
		}
		if st.deleted {
			return st.answer(Deleted)
		}
		return m.write(st, producer, match, streamSeq, in, ordinal, a.Records, a.Close, nil)
	}
	closes := a.Close || a.Create.Closed
	st, answer := m.mayCreate(a.Create, closes)
	if st == nil {
		return answer
	}
	out := m.write(st, producer, match, streamSeq, in, ordinal, a.Records, closes, func() { m.add(st) })
	if out.Verdict != Accepted {
		out.ID, out.Start, out.Tail = 0, 0, 0 // there is no such stream
	}
	return out
}

// write checks and does an append or a close; made is called before the first
// change.
func (m *model) write(st *modelStream, producer *stream.Producer, match *stream.Offset, streamSeq *string,
	in segmentName, ordinal, records uint32, closes bool, made func(),
) AppendResult {
	out := st.answer(Accepted)
	var known *modelProducer
	if producer != nil {
		known = st.producers[producer.ID]
	}
	if known != nil {
		highest := uint64(len(known.firsts)) - 1
		out.ProducerEpoch, out.ProducerSeq = known.epoch, highest
		switch {
		case producer.Epoch == known.epoch && producer.Seq <= highest:
			out.Verdict = Duplicate
			if producer.Seq+5 > highest {
				out.First, out.FirstKnown = known.firsts[producer.Seq], true
			}
			return out
		case producer.Epoch < known.epoch:
			out.Verdict = FencedProducer
			return out
		}
	}
	switch {
	case st.info.Closed:
		out.Verdict, out.ProducerEpoch, out.ProducerSeq = Closed, 0, 0
		return out
	case known == nil && producer != nil && producer.Seq != 0:
		out.Verdict, out.ProducerEpoch = SequenceGap, producer.Epoch
		return out
	case known != nil && producer.Epoch > known.epoch && producer.Seq != 0:
		out.Verdict = EpochStart
		return out
	case known != nil && producer.Epoch == known.epoch && producer.Seq > uint64(len(known.firsts)):
		out.Verdict, out.ExpectedSeq = SequenceGap, uint64(len(known.firsts))
		return out
	}
	out.ProducerEpoch, out.ProducerSeq = 0, 0
	switch {
	case match != nil && *match != st.info.Tail:
		out.Verdict = MatchFailed
		return out
	case streamSeq != nil && st.streamSeq != nil && *streamSeq <= *st.streamSeq:
		out.Verdict = StreamSeq
		return out
	}
	if made != nil {
		made()
	}
	out.First, out.FirstKnown = st.info.Tail, true
	for i := range records {
		st.records = append(st.records, modelRecord{offset: st.info.Tail, in: in, ordinal: ordinal + i})
		st.info.Tail++
	}
	if producer != nil {
		if known == nil || known.epoch != producer.Epoch {
			known = &modelProducer{epoch: producer.Epoch}
			st.producers[producer.ID] = known
		}
		known.firsts = append(known.firsts, out.First)
		out.ProducerEpoch, out.ProducerSeq = producer.Epoch, producer.Seq
	}
	if streamSeq != nil {
		st.streamSeq = streamSeq
	}
	st.info.Closed = st.info.Closed || closes
	m.touch(st)
	m.changed = append(m.changed, st.info.ID)
	out.Tail, out.Closed = st.info.Tail, st.info.Closed
	return out
}
