package sqllogtest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/commands"
)

// archiveUpTo records rows up to an index as archived, in one object.
func archiveUpTo(t testing.TB, l Log, row commands.Row) {
	t.Helper()
	a, err := l.Archive(t.Context())
	require.NoError(t, err)
	_, err = l.AnnounceArchive(t.Context(), a.Head.Index, row.Index)
	require.NoError(t, err)
	a, err = l.AdvanceArchive(t.Context(), row.Position(), "key", commands.ArchiveDigest{1})
	require.NoError(t, err)
	require.Equal(t, row.Position(), a.Head)
}

// truncate truncates and says up to which row the log is truncated then.
func truncate(t testing.TB, l Log, upTo commands.Index, limit int) commands.Index {
	t.Helper()
	a, err := l.Truncate(t.Context(), upTo, limit)
	require.NoError(t, err)
	return a.Truncated.Index
}

func requireTruncated(t testing.TB, err error, after, first commands.Index) {
	t.Helper()
	var truncated *commands.TruncatedError
	require.ErrorAs(t, err, &truncated)
	require.ErrorIs(t, err, commands.ErrTruncated)
	assert.Equal(t, commands.TruncatedError{After: after, First: first}, *truncated)
	for _, other := range []error{commands.ErrNotSent, commands.ErrUnknown, commands.ErrLostTail} {
		assert.NotErrorIs(t, err, other)
	}
}

func testArchive(t *testing.T, b Backend) {
	ctx, other := t.Context(), b.peer(t)
	a, err := b.Log.Archive(ctx)
	require.NoError(t, err)
	assert.Zero(t, a)
	(&proposer{log: b.Log, node: 1}).append(t, 10)
	rows := readAll(t, b.Log)
	announce := func(l Log, after, last, want commands.Index, why string) {
		t.Helper()
		a, err := l.AnnounceArchive(ctx, after, last)
		require.NoError(t, err)
		assert.Equal(t, want, a.Announced, why)
	}
	announce(b.Log, 0, 11, 0, "there is no such row")
	announce(b.Log, 1, 4, 0, "that is not where the archive ends")
	announce(b.Log, 0, 4, 4, "announced")
	announce(other, 0, 7, 4, "what is announced stays")

	digest := commands.ArchiveDigest{1, 255, 0, 3}
	advance := func(l Log, to commands.Position, key string, want commands.Archive, why string) {
		t.Helper()
		a, err := l.AdvanceArchive(ctx, to, key, digest)
		require.NoError(t, err)
		assert.Equal(t, want, a, why)
	}
	announced := commands.Archive{Announced: 4}
	advance(b.Log, rows[6].Position(), "a/7", announced, "not what was announced")
	advance(b.Log, commands.Position{Index: 4, Row: rows[3].ID + 1}, "a/4", announced, "another row")
	advance(b.Log, commands.Position{}, "a/0", announced, "nothing")
	done := commands.Archive{Head: rows[3].Position(), Key: "a/4", Digest: digest}
	advance(b.Log, rows[3].Position(), "a/4", done, "written")
	advance(other, rows[3].Position(), "late", done, "a repeat changes nothing")
	announce(other, 0, 7, 0, "too late")
	announce(other, 4, 4, 0, "an object has a row")
	announce(other, 4, 10, 10, "the next object")
}

func testTruncate(t *testing.T, b Backend) {
	p := &proposer{log: b.Log, node: 1}
	p.append(t, 10)
	rows := readAll(t, b.Log)
	assert.Zero(t, truncate(t, b.Log, 10, 100), "nothing is archived")
	_, err := b.Log.AnnounceArchive(t.Context(), 0, 6)
	require.NoError(t, err)
	assert.Zero(t, truncate(t, b.Log, 10, 100), "announced is not archived")
	archiveUpTo(t, b.Log, rows[5])

	assert.EqualValues(t, 4, truncate(t, b.Log, 4, 100))
	assert.EqualValues(t, 4, truncate(t, b.peer(t), 4, 100), "again")
	assert.EqualValues(t, 4, truncate(t, b.Log, 2, 100), "not back")
	_, err = b.Log.Read(t.Context(), 3, 1, 1)
	requireTruncated(t, err, 3, 5)
	_, err = b.Log.Read(t.Context(), 0, 100, 1<<20)
	requireTruncated(t, err, 0, 5)
	kept, err := b.Log.Read(t.Context(), 4, 100, 1<<20)
	require.NoError(t, err)
	assert.Equal(t, rows[4:], kept, "the rest is as it was")
	assert.EqualValues(t, 6, truncate(t, b.Log, 10, 100), "no further than what is archived")

	a, err := b.Log.Archive(t.Context())
	require.NoError(t, err)
	assert.Equal(t, commands.Archive{Head: rows[5].Position(), Key: "key", Digest: commands.ArchiveDigest{1}, Truncated: rows[5].Position()}, a)
	n, err := b.Log.RowCount(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 4, n)
	p.append(t, 1)
}

func testTruncateBounds(t *testing.T, b Backend) {
	var last commands.Position
	for i, size := range []int{10, 10, 10, 10, 3 << 20, 1 << 20, 6 << 20, 10} {
		at, err := b.Log.Append(t.Context(), commands.Insert{
			Origin: commands.Origin{Node: 1, Epoch: 1, Seq: uint64(i + 1)}, Payload: make([]byte, size), Applied: last,
		})
		require.NoError(t, err)
		last = at.Position
	}
	archiveUpTo(t, b.Log, commands.Row{Index: last.Index, ID: last.Row})
	for _, want := range []commands.Index{3, 5, 6, 7, 8, 8} {
		assert.Equal(t, want, truncate(t, b.Log, 8, 3))
	}
}

func testTruncateAll(t *testing.T, b Backend) {
	p := &proposer{log: b.Log, node: 1}
	p.append(t, 5)
	rows := readAll(t, b.Log)
	archiveUpTo(t, b.Log, rows[4])
	assert.EqualValues(t, 1, truncate(t, b.Log, 5, 0), "at least one")
	assert.EqualValues(t, 5, truncate(t, b.Log, 5, 100))
	head, err := b.Log.Head(t.Context())
	require.NoError(t, err)
	assert.Equal(t, rows[4].Position(), head)
	none, err := b.Log.Read(t.Context(), 5, 10, 1000)
	require.NoError(t, err)
	assert.Empty(t, none)
	_, err = b.Log.Read(t.Context(), 4, 10, 1000)
	requireTruncated(t, err, 4, 6)
	p.append(t, 2)
	kept, err := b.Log.Read(t.Context(), 5, 10, 1000)
	require.NoError(t, err)
	require.Len(t, kept, 2)
	assert.Equal(t, rows[4].ID, kept[0].Previous)
}

func testTruncatedProposer(t *testing.T, b Backend) {
	p := &proposer{log: b.Log, node: 1}
	p.append(t, 6)
	rows := readAll(t, b.Log)
	archiveUpTo(t, b.Log, rows[5])
	truncate(t, b.Log, 4, 100)

	at := func(applied commands.Position) error {
		other := &proposer{log: b.Log, node: 2, applied: applied}
		_, err := b.Log.Append(t.Context(), other.next())
		return err
	}
	requireTruncated(t, at(rows[2].Position()), 3, 5)
	requireTruncated(t, at(commands.Position{}), 0, 5)
	replaced := commands.Position{Index: 4, Row: rows[3].ID + 1}
	var lost *commands.LostTailError
	require.ErrorAs(t, at(replaced), &lost)
	assert.Equal(t, commands.LostTailError{Applied: replaced, Found: rows[3].ID, Head: rows[5].Position()}, *lost)
	require.NoError(t, at(rows[3].Position()), "the last truncated row is known")
	require.NoError(t, (&proposer{log: b.Log, node: 1, seq: 6, applied: rows[5].Position()}).try(t))
	n, err := b.Log.RowCount(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 4, n, "what was refused wrote nothing")
}

func testTruncatedOrigin(t *testing.T, b Backend) {
	p := &proposer{log: b.Log, node: 1}
	p.append(t, 6)
	archiveUpTo(t, b.Log, readAll(t, b.Log)[5])
	truncate(t, b.Log, 4, 100)
	find := func(seq uint64, applied commands.Index) (bool, error) {
		_, _, found, err := b.Log.FindOrigin(t.Context(), commands.Origin{Node: 1, Epoch: 1, Seq: seq}, applied)
		return found, err
	}
	_, err := find(3, 2)
	requireTruncated(t, err, 2, 5)
	_, err = find(99, 3)
	requireTruncated(t, err, 3, 5)
	found, err := find(99, 4)
	require.NoError(t, err)
	assert.False(t, found, "it would be in a row that is there")
	found, err = find(5, 0)
	require.NoError(t, err)
	assert.True(t, found)
}

func testTruncateConcurrent(t *testing.T, b Backend) {
	const rows = 40
	p := &proposer{log: b.peer(t), node: 1}
	p.append(t, rows/2)
	archiveUpTo(t, b.Log, readAll(t, b.Log)[rows/2-1])
	var group errgroup.Group
	group.Go(func() error {
		for range rows / 2 {
			at, err := appendUntilDone(t.Context(), p.log, p.next())
			if err != nil {
				return err
			}
			p.applied = at.Position
		}
		return nil
	})
	for range 3 {
		l := b.peer(t)
		group.Go(func() error {
			for {
				a, err := l.Truncate(t.Context(), rows/2, 3)
				if err != nil || a.Truncated.Index == rows/2 {
					return err
				}
			}
		})
	}
	require.NoError(t, group.Wait())
	kept, err := b.Log.Read(t.Context(), rows/2, 100, 1<<20)
	require.NoError(t, err)
	assert.Len(t, kept, rows/2)
}

// try is one append whose failure is the caller's to judge.
func (p *proposer) try(t testing.TB) error {
	_, err := p.log.Append(t.Context(), p.next())
	return err
}
