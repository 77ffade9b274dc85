package sqllogtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
)

// Log is everything a command log does.
type Log interface {
	Append(ctx context.Context, in commands.Insert) (commands.Inserted, error)
	Read(ctx context.Context, after commands.Index, maxRows, maxBytes int) ([]commands.Row, error)
	Head(ctx context.Context) (commands.Position, error)
	FindOrigin(ctx context.Context, o commands.Origin, applied commands.Index) (commands.Inserted, uint64, bool, error)
	RowCount(ctx context.Context) (int64, error)
	Wakeups() <-chan struct{}
	Exclusive() bool

	AddSnapshot(ctx context.Context, s commands.Snapshot) error
	ConfirmSnapshot(ctx context.Context, at commands.Index) error
	Snapshots(ctx context.Context) ([]commands.Snapshot, error)
	DeleteSnapshot(ctx context.Context, at commands.Index) error

	Archive(ctx context.Context) (commands.Archive, error)
	AnnounceArchive(ctx context.Context, after, last commands.Index) (commands.Archive, error)
	AdvanceArchive(ctx context.Context, to commands.Position, key string, digest commands.ArchiveDigest) (commands.Archive, error)
	Truncate(ctx context.Context, upTo commands.Index, limit int) (commands.Archive, error)

	AcquireLease(ctx context.Context, name string, by commands.Holder, ttl time.Duration) (bool, error)
	ReleaseLease(ctx context.Context, name string, by commands.Holder) error
	Leases(ctx context.Context) ([]commands.Lease, error)
	LeaseHolder(ctx context.Context, name string) (by commands.Holder, held bool, err error)
	Beat(ctx context.Context, h commands.Heartbeat) error
	Heartbeats(ctx context.Context) ([]commands.Heartbeat, error)
	Forget(ctx context.Context, node commands.NodeID, epoch commands.Epoch) error

	Close() error
}

// Backend is one log under test, empty at first.
type Backend struct {
	// Log is open. The test that made it closes it.
	Log Log
	// Peer opens the same log as another process would, until the test ends.
	// Nil when only one process may.
	Peer func(t testing.TB) Log
	// Rewind takes the log back to an index, as a copy of the database made
	// then and restored now would.
	Rewind func(t testing.TB, to commands.Index)
}

// peer is a second way to the log: another process where there can be one.
func (b Backend) peer(t testing.TB) Log {
	if b.Peer == nil {
		return b.Log
	}
	return b.Peer(t)
}

// Run tests a log. open is called once for each part of the suite.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	for _, part := range []struct {
		name string
		test func(*testing.T, Backend)
	}{
		{"an empty log", testEmpty},
		{"appends make a chain", testChain},
		{"payloads come back as they were", testPayloads},
		{"a payload without bytes or too large is refused", testPayloadBounds},
		{"reads are bounded in rows and bytes", testReadBounds},
		{"an origin is in the log once", testOrigins},
		{"concurrent appenders leave no gap", testConcurrent},
		{"an append ahead of the log is refused", testAhead},
		{"a log that lost its tail refuses who applied it", testLostTail},
		{"a log that lost its tail and grew again refuses too", testRegrown},
		{"a cancelled append is retried exactly once", testCancelled},
		{"appends wake", testWakeups},
		{"snapshots", testSnapshots},
		{"the archive is announced, then recorded", testArchive},
		{"what is archived can be truncated", testTruncate},
		{"truncation is bounded in rows and bytes", testTruncateBounds},
		{"a log that is truncated whole goes on", testTruncateAll},
		{"a proposer behind the truncation is refused", testTruncatedProposer},
		{"an origin that may have been truncated is in doubt", testTruncatedOrigin},
		{"truncation while others append", testTruncateConcurrent},
		{"one row holds what several nodes asked for", testParts},
		{"leases have one holder", testLeases},
		{"leases run out", testLeaseExpiry},
		{"heartbeats", testHeartbeats},
	} {
		t.Run(part.name, func(t *testing.T) {
			b := open(t)
			b.Log = patient{b.Log}
			if peer := b.Peer; peer != nil {
				b.Peer = func(t testing.TB) Log { return patient{peer(t)} }
			}
			part.test(t, b)
		})
	}
}

// patient is a log whose appends are repeated while they are not sent, as its users
// do: a database that has much else to do gives up what takes too long.
type patient struct{ Log }

// Append implements [Log].
func (p patient) Append(ctx context.Context, in commands.Insert) (commands.Inserted, error) {
	for {
		at, err := p.Log.Append(ctx, in)
		if !errors.Is(err, commands.ErrNotSent) || ctx.Err() != nil {
			return at, err
		}
	}
}

// proposer appends small rows in the name of one node and remembers what it
// applied last.
type proposer struct {
	log     Log
	node    commands.NodeID
	seq     uint64
	applied commands.Position
}

// next is the proposer's next insert, not yet appended.
func (p *proposer) next() commands.Insert {
	p.seq++
	return commands.Insert{
		Origin:  commands.Origin{Node: p.node, Epoch: 1, Seq: p.seq},
		Payload: fmt.Appendf(nil, "node %d row %d", p.node, p.seq),
		Applied: p.applied,
		Summary: commands.Summary{Kinds: "tick 1", Commands: 1},
	}
}

// append appends n rows, each after the one before was applied.
func (p *proposer) append(t testing.TB, n int) {
	t.Helper()
	for range n {
		at, err := p.log.Append(t.Context(), p.next())
		require.NoError(t, err)
		require.Equal(t, p.applied.Row, at.Previous)
		p.applied = at.Position
	}
}

// readAll reads the whole log in pages and checks that it is one chain.
func readAll(t testing.TB, l Log) []commands.Row {
	t.Helper()
	var all []commands.Row
	var last commands.Position
	for {
		page, err := l.Read(t.Context(), last.Index, 10, 1<<20)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		for _, row := range page {
			require.Equal(t, last.Index+1, row.Index)
			require.Equal(t, last.Row, row.Previous)
			last = row.Position()
		}
		all = append(all, page...)
	}
	head, err := l.Head(t.Context())
	require.NoError(t, err)
	assert.Equal(t, last, head)
	return all
}

// awaitWake waits for a signal. The limit only ends a test that hangs.
func awaitWake(t testing.TB, l Log) {
	t.Helper()
	select {
	case <-l.Wakeups():
	case <-time.After(patience):
		require.Fail(t, "no wakeup came")
	}
}

// drain takes the signal that may wait.
func drain(l Log) {
	select {
	case <-l.Wakeups():
	default:
	}
}
