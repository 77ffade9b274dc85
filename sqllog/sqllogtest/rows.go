package sqllogtest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/commands"
)

func testEmpty(t *testing.T, b Backend) {
	head, err := b.Log.Head(t.Context())
	require.NoError(t, err)
	assert.Zero(t, head)
	rows, err := b.Log.Read(t.Context(), 0, 10, 1000)
	require.NoError(t, err)
	assert.Empty(t, rows)
	n, err := b.Log.RowCount(t.Context())
	require.NoError(t, err)
	assert.Zero(t, n)
	_, _, found, err := b.Log.FindOrigin(t.Context(), commands.Origin{Node: 1, Epoch: 1, Seq: 1}, 0)
	require.NoError(t, err)
	assert.False(t, found)
	assert.Equal(t, b.Peer == nil, b.Log.Exclusive())
}

func testChain(t *testing.T, b Backend) {
	p := &proposer{log: b.Log, node: 1}
	p.append(t, 25)
	rows := readAll(t, b.peer(t))
	require.Len(t, rows, 25)
	seen := make(map[commands.RowID]bool)
	for i, row := range rows {
		assert.Equal(t, commands.Index(i+1), row.Index)
		assert.NotZero(t, row.ID)
		assert.False(t, seen[row.ID], "row ids do not repeat")
		seen[row.ID] = true
		assert.Positive(t, int64(row.DatabaseTime))
	}
	n, err := b.Log.RowCount(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 25, n)
}

func testPayloads(t *testing.T, b Backend) {
	random := rand.NewChaCha8([32]byte{})
	var sent [][]byte
	for i, size := range []int{1, 2, 255, 4096, 70_000, 1 << 20} {
		payload := make([]byte, size)
		_, _ = random.Read(payload) // never fails
		payload[0] = 0              // a zero byte ends text
		_, err := b.Log.Append(t.Context(), commands.Insert{
			Origin: commands.Origin{Node: 7, Epoch: 3, Seq: uint64(i + 1)}, Payload: payload,
			Summary: commands.Summary{Kinds: "commit 2 it's \"quoted\" ? $1", Commands: 2, Appends: 99},
		})
		require.NoError(t, err)
		sent = append(sent, payload)
	}
	for i, row := range readAll(t, b.Log) {
		assert.True(t, bytes.Equal(sent[i], row.Payload), "payload %d", i)
	}
}

func testPayloadBounds(t *testing.T, b Backend) {
	for _, payload := range [][]byte{nil, make([]byte, commands.MaxPayload+1)} {
		_, err := b.Log.Append(t.Context(), commands.Insert{Origin: commands.Origin{Node: 1, Epoch: 1, Seq: 1}, Payload: payload})
		require.Error(t, err)
		for _, sentinel := range []error{commands.ErrNotSent, commands.ErrUnknown, commands.ErrDuplicateOrigin, commands.ErrLostTail} {
			assert.NotErrorIs(t, err, sentinel)
		}
	}
	assert.Empty(t, readAll(t, b.Log))
}

func testReadBounds(t *testing.T, b Backend) {
	for i, size := range []int{100, 100, 100, 5000, 100} {
		_, err := b.Log.Append(t.Context(), commands.Insert{
			Origin: commands.Origin{Node: 1, Epoch: 1, Seq: uint64(i + 1)}, Payload: bytes.Repeat([]byte{'x'}, size),
		})
		require.NoError(t, err)
	}
	for _, c := range []struct {
		why                      string
		after                    commands.Index
		maxRows, maxBytes, first int
		want                     int
	}{
		{"everything", 0, 10, 1 << 20, 1, 5},
		{"bounded by rows", 0, 2, 1 << 20, 1, 2},
		{"bounded by bytes, to the byte", 0, 10, 300, 1, 3},
		{"one byte less", 0, 10, 299, 1, 2},
		{"the large row does not fit behind others", 1, 10, 5000, 2, 2},
		{"one row comes, however large", 3, 10, 1, 4, 1},
		{"at least one row", 0, 0, 0, 1, 1},
		{"the last", 4, 10, 100, 5, 1},
		{"at the end", 5, 10, 1 << 20, 0, 0},
		{"past the end", 99, 10, 1 << 20, 0, 0},
	} {
		rows, err := b.Log.Read(t.Context(), c.after, c.maxRows, c.maxBytes)
		require.NoError(t, err, c.why)
		require.Len(t, rows, c.want, c.why)
		if c.want > 0 {
			assert.EqualValues(t, c.first, rows[0].Index, c.why)
		}
	}
}

func testOrigins(t *testing.T, b Backend) {
	other := b.peer(t)
	var incarnation commands.Incarnation
	for i := range incarnation {
		incarnation[i] = 0xff // the largest epoch that stands for a registration
	}
	for _, origin := range []commands.Origin{
		{Node: 1, Epoch: 1, Seq: 1},
		{Node: 1, Epoch: 1, Seq: 2},
		{Node: 1, Epoch: 2, Seq: 1},
		{Node: 2, Epoch: 1, Seq: 1},
		commands.RegistrationOrigin(incarnation),
	} {
		payload := []byte(origin.String())
		at, err := b.Log.Append(t.Context(), commands.Insert{Origin: origin, Payload: payload})
		require.NoError(t, err)

		_, err = other.Append(t.Context(), commands.Insert{Origin: origin, Payload: []byte("again"), Applied: at.Position})
		require.ErrorIs(t, err, commands.ErrDuplicateOrigin)
		require.NotErrorIs(t, err, commands.ErrUnknown)

		found, digest, ok, err := other.FindOrigin(t.Context(), origin, 0)
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, at, found)
		assert.Equal(t, commands.PayloadDigest(payload), digest, "of what was inserted, not of the repeat")
	}
	assert.Len(t, readAll(t, b.Log), 5, "the repeats left nothing behind")
}

func testConcurrent(t *testing.T, b Backend) {
	const appenders, rows = 4, 15
	var group errgroup.Group
	for i := range appenders {
		p := &proposer{log: b.peer(t), node: commands.NodeID(i + 1)}
		group.Go(func() error {
			for range rows {
				at, err := appendUntilDone(t.Context(), p.log, p.next())
				if err != nil {
					return err
				}
				p.applied = at.Position
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	all := readAll(t, b.Log)
	require.Len(t, all, appenders*rows)
	for i := 1; i < len(all); i++ {
		assert.LessOrEqual(t, all[i-1].DatabaseTime, all[i].DatabaseTime, "the clock is read under the lock")
	}
	for i := range appenders {
		var last commands.Index
		for seq := range uint64(rows) {
			at, _, ok, err := b.Log.FindOrigin(t.Context(), commands.Origin{Node: commands.NodeID(i + 1), Epoch: 1, Seq: seq + 1}, 0)
			require.NoError(t, err)
			require.True(t, ok)
			assert.Greater(t, at.Index, last, "a proposer's rows are in its order")
			last = at.Index
		}
	}
}

// appendUntilDone is what a proposer does: it repeats what was not sent, and
// looks up what is unknown.
func appendUntilDone(ctx context.Context, l Log, in commands.Insert) (commands.Inserted, error) {
	for {
		at, err := l.Append(ctx, in)
		switch {
		case errors.Is(err, commands.ErrNotSent):
		case errors.Is(err, commands.ErrUnknown), errors.Is(err, commands.ErrDuplicateOrigin):
			found, digest, ok, findErr := l.FindOrigin(ctx, in.Origin, in.Applied.Index)
			if findErr == nil && ok && digest == commands.PayloadDigest(in.Payload) {
				return found, nil
			}
		default:
			return at, err
		}
		if ctx.Err() != nil {
			return at, err
		}
	}
}

func testAhead(t *testing.T, b Backend) {
	p := &proposer{log: b.Log, node: 1}
	p.append(t, 3)
	head := p.applied
	p.applied = commands.Position{Index: 9, Row: 99}
	_, err := b.Log.Append(t.Context(), p.next())
	var lost *commands.LostTailError
	require.ErrorAs(t, err, &lost)
	require.ErrorIs(t, err, commands.ErrLostTail)
	assert.Equal(t, commands.LostTailError{Applied: p.applied, Head: head}, *lost)
	assert.ErrorContains(t, err, "rows 4 to 9 are gone")
	assert.Len(t, readAll(t, b.Log), 3)
}

func testLostTail(t *testing.T, b Backend) {
	p := &proposer{log: b.Log, node: 1}
	p.append(t, 5)
	other := &proposer{log: b.peer(t), node: 2, applied: p.applied}
	other.append(t, 1)
	all := readAll(t, b.Log)

	b.Rewind(t, 4)
	_, err := other.log.Append(t.Context(), other.next())
	var lost *commands.LostTailError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, commands.LostTailError{Applied: all[5].Position(), Head: all[3].Position()}, *lost)

	p.applied = all[3].Position()
	p.append(t, 1) // who applied no lost row goes on
}

func testRegrown(t *testing.T, b Backend) {
	p := &proposer{log: b.Log, node: 1}
	p.append(t, 5)
	before := readAll(t, b.Log)
	b.Rewind(t, 3)
	other := &proposer{log: b.peer(t), node: 2, applied: before[2].Position()}
	other.append(t, 4)
	after := readAll(t, b.Log)

	_, err := p.log.Append(t.Context(), p.next())
	var lost *commands.LostTailError
	require.ErrorAs(t, err, &lost)
	assert.Equal(t, commands.LostTailError{Applied: before[4].Position(), Found: after[4].ID, Head: after[6].Position()}, *lost)
	assert.ErrorContains(t, err, "replaced by others")
	assert.NotEqual(t, before[4].ID, after[5].Previous, "a reader sees it by the chain")
	assert.Len(t, readAll(t, b.Log), 7)
}

func testCancelled(t *testing.T, b Backend) {
	p := &proposer{log: b.Log, node: 1}
	for range 20 {
		in := p.next()
		ctx, cancel := context.WithCancel(t.Context())
		go cancel() // before, while or after it is sent
		at, err := b.Log.Append(ctx, in)
		if err != nil {
			assert.True(t, errors.Is(err, commands.ErrUnknown) || errors.Is(err, commands.ErrNotSent), "%v", err)
			at, err = appendUntilDone(t.Context(), b.Log, in)
			require.NoError(t, err)
		}
		p.applied = at.Position
	}
	for i, row := range readAll(t, b.Log) {
		assert.EqualValues(t, i+1, row.Index)
	}
	assert.EqualValues(t, 20, p.applied.Index, "each is there once")
}

func testWakeups(t *testing.T, b Backend) {
	p := &proposer{log: b.peer(t), node: 1}
	for range 3 {
		drain(b.Log)
		p.append(t, 1)
		awaitWake(t, b.Log)
	}
}
