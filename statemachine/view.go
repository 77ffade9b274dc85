package statemachine

import (
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// View reads a state while entries are applied to it. What it returns is
// copied, each stream as it was at one moment between two changes of that
// stream. It is at least as new as the [View.Index] asked for before; it may be
// newer, and two calls may see different moments.
type View struct {
	s *State
}

// Stream is a copied stream.
type Stream struct {
	ID      stream.ID
	Name    stream.Name
	Config  stream.Config
	Created stream.Time
	Start   stream.Offset
	Tail    stream.Offset
	Closed  bool
	Touched int64 // active time of the last use in ms, for stream.ExpiresIdle
	Extents int   // how many it has
	// Deleted streams keep their name while forks of them live, and nothing else.
	Deleted bool
	Fork    *stream.Fork // how it began, when it is a fork; not to be written to
	Forks   uint32       // live forks of it
}

// ExpiredAt tells whether the stream is past its deadline at an active time in
// milliseconds and a log time, or deleted and kept by no fork any more. Such a
// stream counts as absent, though it is listed until a command removes it.
func (s Stream) ExpiredAt(active int64, now stream.Time) bool {
	if s.Deleted && s.Forks == 0 {
		return true
	}
	limit := int64(s.Config.Expiry.At)
	if s.Config.Expiry.Kind == stream.ExpiresIdle {
		limit = int64(s.Config.Expiry.TTL)
	}
	return due(s.Config.Expiry.Kind, limit, s.Touched, active, now)
}

// Info is the stream as the service shows it.
func (s Stream) Info() stream.Info {
	return stream.Info{
		ID: s.ID, Name: s.Name, Config: s.Config, Created: s.Created, Start: s.Start, Tail: s.Tail, Closed: s.Closed,
		Fork: s.Fork, Forks: s.Forks,
	}
}

// Index is the last applied entry's. Whatever is read after it is at least as
// new.
func (v View) Index() commands.Index { return commands.Index(v.s.public.index.Load()) }

// LogTime is the log time of the last applied entry.
func (v View) LogTime() stream.Time { return stream.Time(v.s.public.logTime.Load()) }

// ActiveTime is the time, in milliseconds, that sliding deadlines count.
func (v View) ActiveTime() int64 { return v.s.public.activeTime.Load() }

// Level is the feature level in force, at least 1.
func (v View) Level() uint32 { return v.s.public.level.Load() }

// Release is the first release that understands the level in force, as the
// Activate named it; empty before the first.
func (v View) Release() string {
	if c := v.s.public.cluster.Load(); c != nil {
		return c.release
	}
	return ""
}

// Cluster is the identity that the first registration brought, if there was
// one.
func (v View) Cluster() (commands.ClusterID, bool) {
	if c := v.s.public.cluster.Load(); c != nil {
		return c.id, true
	}
	return commands.ClusterID{}, false
}

// Counts is how much the state holds.
func (v View) Counts() Counts { return *v.s.public.counts.Load() }

// HasExpiring tells whether some stream can expire, so that time must be moved
// by Tick.
func (v View) HasExpiring() bool { return v.s.public.expiring.Load() > 0 }

// Nodes are the registered nodes, ascending by number.
func (v View) Nodes() []Node {
	t := &v.s.nodes
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]Node, len(t.list))
	for i, n := range t.list {
		list[i] = n.Node
	}
	return list
}

// Lookup is the stream that a name is bound to.
func (v View) Lookup(name stream.Name) (Stream, bool) {
	id, ok := v.s.names.get(string(name))
	if !ok {
		return Stream{}, false
	}
	return v.Stream(id)
}

// Stream is the stream of an id.
func (v View) Stream(id stream.ID) (Stream, bool) {
	p, lock := v.lock(id)
	if lock == nil {
		return Stream{}, false
	}
	defer lock.RUnlock()
	r := p.row()
	if !r.live() {
		return Stream{}, false
	}
	st := Stream{
		ID: id, Name: stream.Name(p.page.names[p.at]),
		Config:  stream.Config{ContentType: v.s.types.value(r.contentType), Expiry: r.expiryConfig()},
		Created: r.created, Start: r.start, Tail: r.tail, Closed: r.closed(), Touched: r.touched,
		Extents: len(p.extents().rows), Deleted: r.deleted(),
	}
	if d := p.side(); d != nil {
		st.Fork, st.Forks, st.Config.Retention = d.fork, d.forks, d.retention
	}
	return st, true
}

// List is a page of up to limit streams in byte order of their names: those
// that begin with prefix and come after a name (empty: from the first). more
// says that others follow; a page that has more is not empty.
func (v View) List(prefix string, after stream.Name, limit int) (page []Stream, more bool) {
	last := string(after)
	for limit > 0 {
		var found []bound
		found, more = v.s.names.page(prefix, last, limit)
		if page == nil {
			page = make([]Stream, 0, len(found))
		}
		for _, b := range found {
			// One that was removed meanwhile is left out.
			if s, ok := v.Stream(b.id); ok {
				page = append(page, s)
			}
			last = b.name
		}
		if len(page) > 0 || !more {
			return page, more
		}
	}
	return nil, false
}
