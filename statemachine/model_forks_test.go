package statemachine

import (
	"slices"
	"strings"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// How streams of the model come and go.

func (m *model) create(c *commands.Create) AppendResult {
	st, answer := m.mayCreate(c, c.Closed)
	if st == nil {
		return answer
	}
	st.info.Closed = c.Closed
	m.add(st)
	return st.answer(Accepted)
}

// mayCreate makes a stream that is not part of the model yet, or says why it
// must not be.
func (m *model) mayCreate(c *commands.Create, closed bool) (*modelStream, AppendResult) {
	if c.Config.Expiry.Kind == stream.ExpiresNever && c.Config.Expiry.TTL != 0 {
		return nil, AppendResult{Verdict: Invalid}
	}
	if f := c.Fork; f != nil && ((f.At == nil && f.Sub != 0) || (f.Cut != 0 && uint64(f.Cut) != f.Sub)) {
		return nil, AppendResult{Verdict: Invalid}
	}
	if there := m.streams[c.Name]; there != nil && !m.due(there) {
		switch {
		case there.deleted:
			return nil, there.answer(Deleted)
		case m.same(there, c, closed):
			return nil, there.answer(Exists)
		default:
			return nil, there.answer(Conflict)
		}
	}
	st := &modelStream{
		info:    stream.Info{ID: stream.ID(m.lastDense + 1), Name: c.Name, Config: c.Config, Created: m.logTime},
		touched: m.activeTime, producers: map[string]*modelProducer{},
	}
	if c.Fork != nil {
		if answer := m.inherit(st, c.Fork); answer.Verdict != Accepted {
			return nil, answer
		}
	}
	return st, AppendResult{}
}

func mediaOf(contentType string) string { return strings.ToLower(strings.Split(contentType, ";")[0]) }

// same compares a stream with what a create asks for.
func (m *model) same(st *modelStream, c *commands.Create, closed bool) bool {
	had, asked := st.info.Config, c.Config
	if st.info.Closed != closed || (st.info.Fork == nil) != (c.Fork == nil) {
		return false
	}
	if keep := asked.Retention; (keep.Age != 0 && keep.Age != had.Retention.Age) || (keep.Bytes != 0 && keep.Bytes != had.Retention.Bytes) {
		return false
	}
	if c.Fork == nil {
		return mediaOf(had.ContentType) == mediaOf(asked.ContentType) && had.Expiry == asked.Expiry
	}
	if asked.ContentType != "" && mediaOf(asked.ContentType) != mediaOf(had.ContentType) {
		return false
	}
	if asked.Expiry.Kind != stream.ExpiresNever && asked.Expiry != had.Expiry {
		return false
	}
	fork := st.info.Fork
	if c.Fork.At != nil && *c.Fork.At != fork.At {
		return false
	}
	if parent := m.find(c.Fork.Parent); parent != nil && parent.info.Name != fork.From {
		return false
	} else if parent == nil && c.Fork.Parent != fork.Parent {
		return false
	}
	return c.Fork.Sub == fork.Sub
}

// inherit gives a stream what it asks of its parent: a copy of every record.
func (m *model) inherit(st *modelStream, f *commands.Fork) AppendResult {
	parent := m.live(f.Parent)
	if parent == nil {
		return AppendResult{Verdict: ParentGone}
	}
	at := parent.info.Tail
	if f.At != nil {
		at = *f.At
	}
	json := mediaOf(parent.info.Config.ContentType) == "application/json"
	more := f.Sub // records beyond the fork offset
	if !json {
		more = min(f.Sub, 1)
	}
	config := &st.info.Config
	switch {
	case parent.deleted:
		return parent.answer(ParentDeleted)
	case config.ContentType != "" && mediaOf(config.ContentType) != mediaOf(parent.info.Config.ContentType):
		return parent.answer(Conflict)
	case at < parent.info.Start:
		return parent.answer(Trimmed)
	case at > parent.info.Tail || more > uint64(parent.info.Tail-at):
		return parent.answer(BeyondTail)
	case json && f.Cut != 0:
		return parent.answer(Invalid)
	}
	end := at + stream.Offset(more)
	for _, r := range parent.records {
		if r.offset < end {
			st.records = append(st.records, r)
		}
	}
	if f.Cut != 0 {
		last := &st.records[len(st.records)-1]
		if last.cut != 0 && f.Cut >= last.cut {
			return parent.answer(Invalid)
		}
		last.cut = f.Cut
	}
	st.info.Start, st.info.Tail = parent.info.Start, end
	st.info.Fork = &stream.Fork{Parent: f.Parent, From: parent.info.Name, At: at, Sub: f.Sub, End: end}
	if config.ContentType == "" {
		config.ContentType = parent.info.Config.ContentType
	}
	if config.Expiry.Kind == stream.ExpiresNever {
		config.Expiry = parent.info.Config.Expiry
	}
	if config.Retention.Age == 0 {
		config.Retention.Age = parent.info.Config.Retention.Age
	}
	if config.Retention.Bytes == 0 {
		config.Retention.Bytes = parent.info.Config.Retention.Bytes
	}
	return AppendResult{Verdict: Accepted}
}

func (m *model) add(st *modelStream) {
	if old := m.streams[st.info.Name]; old != nil {
		m.remove(old)
	}
	m.lastDense++
	m.streams[st.info.Name] = st
	if st.info.Fork != nil {
		m.forks = append(m.forks, modelFork{st.info.Fork.Parent, st.info.ID})
	}
	m.changed = append(m.changed, st.info.ID)
}

// liveForks counts the forks of a stream that are there, deleted ones with forks
// of their own among them.
func (m *model) liveForks(st *modelStream) (n uint32) {
	for _, f := range m.forks {
		if f.parent == st.info.ID {
			n++
		}
	}
	return n
}

func (m *model) delete(c *commands.Delete) AppendResult {
	st := m.live(c.ID)
	switch {
	case st == nil:
		return AppendResult{Verdict: NotFound}
	case st.deleted:
		return st.answer(Deleted)
	}
	answer := st.answer(Accepted)
	if m.liveForks(st) == 0 {
		m.remove(st)
		return answer
	}
	st.deleted = true
	st.records, st.producers, st.streamSeq = nil, map[string]*modelProducer{}, nil
	st.info.Start, st.info.Closed, st.info.Config.Expiry = st.info.Tail, false, stream.Expiry{}
	st.info.Config.Retention = stream.Retention{}
	m.changed = append(m.changed, st.info.ID)
	return answer
}

// remove takes a stream out, and then each deleted one that has lost its last
// fork by that.
func (m *model) remove(st *modelStream) {
	delete(m.streams, st.info.Name)
	m.forks = slices.DeleteFunc(m.forks, func(f modelFork) bool { return f.child == st.info.ID })
	m.changed = append(m.changed, st.info.ID)
	if st.info.Fork == nil {
		return
	}
	if parent := m.find(st.info.Fork.Parent); parent != nil && parent.deleted && m.liveForks(parent) == 0 {
		m.remove(parent)
	}
}
