package fsck_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/fsck"
	"github.com/picomq/picomq/replica/archive"
	"github.com/picomq/picomq/statemachine"
)

// snapshots are those that the log names, newest first.
func (w *world) snapshots(t *testing.T) []commands.Snapshot {
	t.Helper()
	list, err := w.log.Snapshots(t.Context())
	require.NoError(t, err)
	return list
}

// TestABrokenSnapshot: whichever it is, the check goes on from another.
func TestABrokenSnapshot(t *testing.T) {
	w := populate(t)
	for _, s := range w.snapshots(t) {
		before := w.read(t, s.Key)
		w.delete(t, s.Key)
		w.check(t).requireOnly(t, "error missing "+s.Key)
		w.write(t, s.Key, before)
		w.flip(t, s.Key, len(before)/2)
		w.check(t).requireOnly(t, "error checksum "+s.Key)
		w.write(t, s.Key, before[:len(before)-1])
		w.check(t).requireOnly(t, "error checksum "+s.Key)
		w.write(t, s.Key, before)
	}
	// Without any the archive is replayed.
	var all []string
	for _, s := range w.snapshots(t) {
		w.delete(t, s.Key)
		all = append(all, "error missing "+s.Key)
	}
	w.check(t).requireOnly(t, all...)
	// Without that either nothing more can be said.
	w.delete(t, w.keys(t, "archive/")[0])
	f := w.check(t)
	require.ErrorIs(t, f.err, fsck.ErrIncomplete)
	require.Contains(t, f.faults(), "error damaged "+cluster.String()+"/0000/archive")
}

// TestASnapshotOfAnotherState: one that is whole, and of which the log says the
// same, but that replaying does not give.
func TestASnapshotOfAnotherState(t *testing.T) {
	w := populate(t)
	newest := w.snapshots(t)[0]
	older := w.snapshots(t)[1]
	state, err := statemachine.Restore(bytes.NewReader(w.read(t, older.Key)))
	require.NoError(t, err)
	for at := older.Index; at < newest.Index; { // rows that do nothing, under the same indexes
		at++
		state.Apply(&commands.Entry{Index: at, DatabaseTime: 1})
	}
	var forged bytes.Buffer
	frozen := state.BeginSnapshot()
	require.NoError(t, frozen.Encode(&forged))
	w.write(t, newest.Key, forged.Bytes())
	require.NoError(t, w.log.DeleteSnapshot(t.Context(), newest.Index))
	newest.Digest = frozen.Digest()
	require.NoError(t, w.log.AddSnapshot(t.Context(), newest))
	w.check(t).requireOnly(t, "error diverged "+newest.Key)
}

// TestEvidenceOfLostRows: snapshots and marks are of rows that the log has.
func TestEvidenceOfLostRows(t *testing.T) {
	w := populate(t)
	mark := w.keys(t, "applied/")[0]
	before := w.read(t, mark)
	head, err := w.log.Head(t.Context())
	require.NoError(t, err)
	a, err := w.log.Archive(t.Context())
	require.NoError(t, err)
	for _, text := range []string{
		fmt.Sprintf("picomq applied 1 %d %016x\n", head.Index+1, 5),
		fmt.Sprintf("picomq applied 1 %d %016x\n", head.Index, 5),
		fmt.Sprintf("picomq applied 1 %d %016x\n", a.Truncated.Index, 5),
		fmt.Sprintf("picomq applied 1 %d %016x\n", a.Truncated.Index-1, 5),
	} {
		w.write(t, mark, []byte(text))
		w.check(t).requireOnly(t, "error lost_rows "+mark)
	}
	for _, text := range []string{"", "something else", "picomq applied 1 0 0\n"} {
		w.write(t, mark, []byte(text))
		w.check(t).requireOnly(t, "error format "+mark)
	}
	w.write(t, mark, before)
	w.log.Rewind(head.Index - 1)
	w.check(t).requireOnly(t, "error lost_rows "+mark)
}

// TestBrokenIdentityAndMarkers.
func TestBrokenIdentityAndMarkers(t *testing.T) {
	w := populate(t)
	markers := w.keys(t, "marker/")
	require.Len(t, markers, 2)
	last := markers[1]
	before := w.read(t, last)
	w.write(t, last, fmt.Appendf(nil, "picomq incarnation 1 %x\n", [16]byte{1}))
	w.check(t).requireOnly(t, "error foreign "+last)
	w.write(t, last, []byte("nobody"))
	w.check(t).requireOnly(t, "error format "+last)
	w.write(t, last, before)

	identity := w.read(t, blobwal.IdentityKey)
	w.delete(t, blobwal.IdentityKey)
	w.check(t).requireOnly(t, "error missing "+blobwal.IdentityKey)
	w.write(t, blobwal.IdentityKey, []byte("nonsense"))
	w.check(t).requireOnly(t, "error format "+blobwal.IdentityKey)
	w.write(t, blobwal.IdentityKey, fmt.Appendf(nil, "picomq cluster 1 %x\n", [16]byte{2}))
	f := w.check(t)
	var wrong *blobwal.IdentityError
	require.ErrorAs(t, f.err, &wrong)
	w.write(t, blobwal.IdentityKey, identity)
	w.check(t).requireOnly(t)
}

// TestABrokenArchive: every object is read, and they must follow each other.
func TestABrokenArchive(t *testing.T) {
	w := populate(t)
	keys := w.keys(t, "archive/")
	a, err := w.log.Archive(t.Context())
	require.NoError(t, err)
	for i, key := range keys {
		before := w.read(t, key)
		w.delete(t, key)
		if i+1 < len(keys) {
			w.check(t).requireOnly(t, "error gap "+keys[i+1])
			w.check(t, quick).requireOnly(t, "error gap "+keys[i+1])
		} else {
			w.check(t).requireOnly(t, "error gap "+a.Key)
		}
		w.write(t, key, before[:len(before)-1])
		w.check(t).requireOnly(t, "error damaged "+key)
		w.write(t, key, before)
		for _, at := range []int{0, 100, 170, len(before) - 1} {
			w.flip(t, key, at)
			w.check(t).requireOnly(t, "error damaged "+key)
			w.flip(t, key, at)
		}
	}
	first, err := archive.ParseKey(keys[0])
	require.NoError(t, err)
	twice := archive.Key(cluster, first.Last, first.Last)
	w.write(t, twice, nil)
	w.check(t).requireOnly(t, "error overlap "+twice)
	w.delete(t, twice)

	beyond := archive.Key(cluster, a.Head.Index+1, a.Head.Index+2)
	w.write(t, beyond, nil)
	w.check(t).requireOnly(t, "error chain "+beyond)
	f := w.check(t, w.besideACluster)
	f.requireOnly(t)
	require.Contains(t, f.info(fsck.Unrecorded), beyond)
}

// TestAnArchiveOfTwoHistories: an object that is whole, and does not follow the
// one before.
func TestAnArchiveOfTwoHistories(t *testing.T) {
	w := populate(t)
	key := w.keys(t, "archive/")[1]
	var rows []commands.Row
	header, err := archive.Read(t.Context(), w.bucket, key, func(row commands.Row) error {
		rows = append(rows, row)
		return nil
	})
	require.NoError(t, err)
	other := header.Before
	other.Digest[0] ^= 1
	writer, err := archive.NewWriter(cluster, other)
	require.NoError(t, err)
	for _, row := range rows {
		require.NoError(t, writer.Add(row))
	}
	object, err := writer.Seal()
	require.NoError(t, err)
	w.write(t, key, object.Bytes)
	next := w.keys(t, "archive/")[2]
	for _, how := range [][]func(*fsck.Config){nil, {quick}} {
		w.check(t, how...).requireOnly(t, "error chain "+key, "error chain "+next)
	}
}

// TestNothingToCheck: a log that no server was started with.
func TestNothingToCheck(t *testing.T) {
	w := newWorld(t)
	f := w.check(t)
	require.ErrorIs(t, f.err, fsck.ErrIncomplete)
	_, err := fsck.Run(t.Context(), fsck.Config{})
	require.Error(t, err)
}
