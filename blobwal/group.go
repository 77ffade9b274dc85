package blobwal

import (
	"time"

	"github.com/picomq/picomq/stream"
)

// Append is the records of one append call to one stream; they are refused or
// accepted together. The writer keeps it, and the bodies it points to, until
// the segment is delivered; nobody may write to them meanwhile.
type Append struct {
	// Stream is the id of the stream, 0 for an append that creates its stream.
	Stream stream.ID
	// Name is required when Stream is 0 and not stored otherwise.
	Name stream.Name
	// JSON says that the stream keeps JSON messages: bodies are separated by
	// commas.
	JSON    bool
	Records []stream.Record // at least one
	// Extra is bytes that the append takes outside its segment, in what commits
	// it. They count toward the bounds of a segment as its own do.
	Extra int
	Tag   any // the caller's
}

// orderKey says which appends must stay in order. Those that create a stream
// share its name, since its id is not known yet.
type orderKey struct {
	id   stream.ID
	name stream.Name
}

// blockKey says which appends may share a block. Two creations of one name may
// disagree about its type; one of them will be refused.
type blockKey struct {
	orderKey
	json bool
}

func (a *Append) key() blockKey {
	k := blockKey{orderKey: orderKey{id: a.Stream}, json: a.JSON}
	if a.Stream == 0 {
		k.name = a.Name
	}
	return k
}

// bytes is what the append takes in a segment at most: in its blocks, in the
// index, and what cutting it into blocks adds; and what it takes elsewhere.
func (a *Append) bytes() int {
	n := 0
	for i := range a.Records {
		r := &a.Records[i]
		n += len(r.Body) + endBytes + headersBytes(r.Headers)
	}
	if a.JSON {
		n += len(a.Records)
	}
	overhead := blockBytes + 4 + entryBytes
	if a.Stream == 0 {
		overhead += len(a.Name)
	}
	return n + a.Extra + overhead*(1+2*n/MaxBlockBytes)
}

// group is the appends that will be one segment, by stream. Appends of a stream
// are a linked list within one slice, so that a group of many small streams
// costs three growing slices and a map, not a slice per stream.
type group struct {
	entries []groupEntry
	streams []groupStream
	byKey   map[blockKey]int32 // place in streams
	bytes   int                // at most what the object will have, object overhead aside
	opened  time.Time          // when the first append came
}

type groupEntry struct {
	append *Append
	next   int32 // in entries, of the same stream; -1 at the end
}

type groupStream struct {
	key         blockKey
	first, last int32 // in entries
}

func newGroup() *group { return &group{byKey: make(map[blockKey]int32)} }

func (g *group) add(a *Append, bytes int, now time.Time) {
	if len(g.entries) == 0 {
		g.opened = now
	}
	place := int32(len(g.entries))
	g.entries = append(g.entries, groupEntry{append: a, next: -1})
	g.bytes += bytes
	key := a.key()
	if s, ok := g.byKey[key]; ok {
		g.entries[g.streams[s].last].next = place
		g.streams[s].last = place
		return
	}
	g.byKey[key] = int32(len(g.streams))
	g.streams = append(g.streams, groupStream{key: key, first: place, last: place})
}

// ordered is the appends in the order in which their records lie in the
// segment.
func (g *group) ordered() []*Append {
	out := make([]*Append, 0, len(g.entries))
	for _, s := range g.streams {
		for i := s.first; i >= 0; i = g.entries[i].next {
			out = append(out, g.entries[i].append)
		}
	}
	return out
}

// reset makes the group empty and keeps its memory.
func (g *group) reset() {
	clear(g.entries)
	clear(g.streams)
	clear(g.byKey)
	g.entries, g.streams, g.bytes = g.entries[:0], g.streams[:0], 0
}
