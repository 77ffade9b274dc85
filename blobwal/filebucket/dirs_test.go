package filebucket

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is remembered about directories is bounded, and forgetting errs towards one
// fsync more and one put less.
func TestDirsAreBounded(t *testing.T) {
	d := newDirs(disk{}, "/root", 0o750)
	for i := range maxKnownDirs + 1 {
		d.remember("/root/" + strconv.Itoa(i))
	}
	require.LessOrEqual(t, len(d.known), maxKnownDirs)
	require.True(t, d.isKnown("/root/"+strconv.Itoa(maxKnownDirs)))
	require.False(t, d.isKnown("/root/0"))

	cause := errors.New("device is gone")
	for i := range maxFailed {
		require.NoError(t, d.failure("/root/good"))
		d.fail("/root/"+strconv.Itoa(i), cause)
	}
	require.ErrorIs(t, d.failure("/root/0"), cause)
	require.ErrorIs(t, d.failure("/root/good"), errUnsynced)
	d.fail("/root/more", cause)
	require.Len(t, d.failed, maxFailed)
}

// A put whose fsync succeeds beside one of the same directory that fails is refused:
// the failure may have concerned the entry that it found.
func TestSyncBesideAFailedOne(t *testing.T) {
	dir := t.TempDir()
	d := newDirs(disk{}, dir, 0o750)
	open, err := d.prepare(dir)
	require.NoError(t, err)
	defer open.close()
	d.disk.tap = func(c call) error {
		if c.step == stepSyncDir {
			d.fail(dir, errors.New("another descriptor's error"))
		}
		return nil
	}
	require.ErrorIs(t, open.sync(), errUnsynced)
}
