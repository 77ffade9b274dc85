package sqllogtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/picomq/picomq/commands"
)

// Memory is a log in memory for tests of what stands on a log. It passes the
// same suite as the databases, and breaks when told to. Logs made by Peer share
// its rows, each with faults and wakeups of its own. Safe for concurrent use.
type Memory struct {
	// Before runs before each call does anything; its error is the call's, and
	// nothing was done. Blocking in it freezes the caller. Set it before use.
	Before func(ctx context.Context, call string) error
	// Lost runs after an append wrote its row; its error, wrapped in
	// commands.ErrUnknown, takes the place of the answer. Set it before use.
	Lost func(commands.Insert, commands.Inserted) error
	// After runs after a call that changes the archive or truncates did its work;
	// its error takes the place of the answer. Set it before use.
	After func(call string) error
	// Now is the database's clock. Nil: the system's. Set it before use.
	Now func() time.Time

	alone   bool
	shared  *tables
	wakeups chan struct{}
}

// tables is what a database would hold.
type tables struct {
	mu         sync.Mutex
	rows       []commands.Row // rows[i] has index archive.Truncated.Index+i+1
	archive    commands.Archive
	origins    map[commands.Origin]origin
	snapshots  map[commands.Index]commands.Snapshot
	leases     map[string]lease
	heartbeats map[commands.NodeID]commands.Heartbeat
	listeners  []chan struct{}
}

// origin is where a proposal stands, and the digest of what its node asked for.
type origin struct {
	index  commands.Index
	digest uint64
}

// NewMemory is an empty log that any number of nodes may share.
func NewMemory() *Memory {
	return (&Memory{shared: &tables{
		origins:    make(map[commands.Origin]origin),
		snapshots:  make(map[commands.Index]commands.Snapshot),
		leases:     make(map[string]lease),
		heartbeats: make(map[commands.NodeID]commands.Heartbeat),
	}}).Peer()
}

// NewExclusiveMemory is an empty log that says only one node can append.
func NewExclusiveMemory() *Memory {
	m := NewMemory()
	m.alone = true
	return m
}

// Peer is the same log as another node opens it.
func (m *Memory) Peer() *Memory {
	peer := &Memory{Now: m.Now, shared: m.shared, wakeups: make(chan struct{}, 1)}
	m.shared.mu.Lock()
	defer m.shared.mu.Unlock()
	m.shared.listeners = append(m.shared.listeners, peer.wakeups)
	return peer
}

// Exclusive says whether it was made by NewExclusiveMemory.
func (m *Memory) Exclusive() bool { return m.alone }

// Wakeups receives a value after each append, coalesced.
func (m *Memory) Wakeups() <-chan struct{} { return m.wakeups }

// Wake leaves a wakeup, as a regained connection does.
func (m *Memory) Wake() { signal(m.wakeups) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close does nothing: the rows stay for the peers, and for opening again.
func (m *Memory) Close() error { return nil }

// Rewind loses the rows after an index, which was not truncated.
func (m *Memory) Rewind(to commands.Index) {
	s := m.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := to - s.archive.Truncated.Index
	s.rows = s.rows[:kept:kept]
	for o, at := range s.origins {
		if at.index > to {
			delete(s.origins, o)
		}
	}
}

// begin starts a call: the caller holds the tables until it calls the result.
func (m *Memory) begin(ctx context.Context, call string) (end func(), err error) {
	if m.Before != nil {
		if err := m.Before(ctx, call); err != nil {
			return nil, fmt.Errorf("%s: %w", call, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	m.shared.mu.Lock()
	return m.shared.mu.Unlock, nil
}

// now is the database's clock in Unix milliseconds.
func (m *Memory) now() int64 {
	if m.Now != nil {
		return m.Now().UnixMilli()
	}
	return time.Now().UnixMilli()
}

// Append writes one row behind the last. A Before that fails without saying
// what it means makes the outcome unknown.
func (m *Memory) Append(ctx context.Context, in commands.Insert) (at commands.Inserted, err error) {
	if len(in.Payload) == 0 || len(in.Payload) > commands.MaxPayload {
		return at, fmt.Errorf("append %v: a payload of %d bytes", in.Origin, len(in.Payload))
	}
	if m.alone && len(in.Parts) > 0 {
		return at, fmt.Errorf("append %v: one node alone inserts for nobody else", in.Origin)
	}
	end, err := m.begin(ctx, "append")
	if err != nil {
		if errors.Is(err, commands.ErrNotSent) || errors.Is(err, commands.ErrUnknown) {
			return at, err
		}
		return at, fmt.Errorf("%w: %w", commands.ErrUnknown, err)
	}
	at, err = m.insert(in)
	end()
	if err != nil {
		return commands.Inserted{}, fmt.Errorf("append %v: %w", in.Origin, err)
	}
	if m.Lost != nil {
		if err := m.Lost(in, at); err != nil {
			return commands.Inserted{}, fmt.Errorf("append %v: %w: %w", in.Origin, commands.ErrUnknown, err)
		}
	}
	return at, nil
}

// insert runs under the tables' lock.
func (m *Memory) insert(in commands.Insert) (commands.Inserted, error) {
	s := m.shared
	shares := in.Shares()
	for _, share := range shares {
		if a := share.Applied; a.Index < s.archive.Truncated.Index {
			return commands.Inserted{}, s.truncatedError(a.Index)
		} else if found := s.position(a.Index); found != a {
			return commands.Inserted{}, &commands.LostTailError{Applied: a, Found: found.Row, Head: s.head()}
		}
		if _, ok := s.origins[share.Origin]; ok {
			return commands.Inserted{}, commands.ErrDuplicateOrigin
		}
	}
	head := s.head()
	row := commands.Row{
		Index: head.Index + 1, ID: commands.RowID(rand.Uint64() | 1), Previous: head.Row, Payload: slices.Clone(in.Payload),
		Origin: in.Origin, Summary: in.Summary,
	}
	setTime(&row.DatabaseTime, m.now())
	s.rows = append(s.rows, row)
	for _, share := range shares {
		s.origins[share.Origin] = origin{row.Index, share.Digest}
	}
	for _, c := range s.listeners {
		signal(c)
	}
	return inserted(row), nil
}

// at is the row at an index, or the zero Row.
func (s *tables) at(index commands.Index) commands.Row {
	first := s.archive.Truncated.Index + 1
	if index < first || index-first >= commands.Index(len(s.rows)) {
		return commands.Row{}
	}
	return s.rows[index-first]
}

// position is the place of the row at an index, the last truncated one included.
func (s *tables) position(index commands.Index) commands.Position {
	if index == s.archive.Truncated.Index {
		return s.archive.Truncated
	}
	return commands.Position{Index: index, Row: s.at(index).ID}
}

func (s *tables) head() commands.Position {
	return s.position(s.archive.Truncated.Index + commands.Index(len(s.rows)))
}

func (s *tables) truncatedError(after commands.Index) error {
	return &commands.TruncatedError{After: after, First: s.archive.Truncated.Index + 1}
}

func inserted(row commands.Row) commands.Inserted {
	return commands.Inserted{Position: row.Position(), Previous: row.Previous, DatabaseTime: row.DatabaseTime}
}

// setTime sets a time, whose type this package may not name.
func setTime[T ~int64](at *T, ms int64) { *at = T(ms) }

// Read returns the rows that follow an index.
func (m *Memory) Read(ctx context.Context, after commands.Index, maxRows, maxBytes int) ([]commands.Row, error) {
	end, err := m.begin(ctx, "read")
	if err != nil {
		return nil, err
	}
	defer end()
	if after < m.shared.archive.Truncated.Index {
		return nil, m.shared.truncatedError(after)
	}
	var list []commands.Row
	bytes := 0
	for index := after + 1; len(list) < max(maxRows, 1); index++ {
		row := m.shared.at(index)
		bytes += len(row.Payload)
		if row.Index == 0 || len(list) > 0 && bytes > maxBytes {
			break
		}
		row.Payload = slices.Clone(row.Payload)
		list = append(list, row)
	}
	return list, nil
}

// Head is the last row's place.
func (m *Memory) Head(ctx context.Context) (commands.Position, error) {
	end, err := m.begin(ctx, "head")
	if err != nil {
		return commands.Position{}, err
	}
	defer end()
	return m.shared.head(), nil
}

// RowCount is how many rows there are.
func (m *Memory) RowCount(ctx context.Context) (int64, error) {
	end, err := m.begin(ctx, "row count")
	if err != nil {
		return 0, err
	}
	defer end()
	return int64(len(m.shared.rows)), nil
}

// FindOrigin looks an origin up that is in a row after applied, or nowhere.
func (m *Memory) FindOrigin(ctx context.Context, o commands.Origin, applied commands.Index) (commands.Inserted, uint64, bool, error) {
	end, err := m.begin(ctx, "find origin")
	if err != nil {
		return commands.Inserted{}, 0, false, err
	}
	defer end()
	found, ok := m.shared.origins[o]
	switch {
	case !ok && applied < m.shared.archive.Truncated.Index:
		return commands.Inserted{}, 0, false, m.shared.truncatedError(applied)
	case !ok:
		return commands.Inserted{}, 0, false, nil
	}
	return inserted(m.shared.at(found.index)), found.digest, true, nil
}
