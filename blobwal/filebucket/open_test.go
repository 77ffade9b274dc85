package filebucket

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenURL(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for raw, want := range map[string]string{
		"file://" + dir + "/abs":                  "abs",
		"file://localhost" + dir + "/l":           "l",
		"file://./rel/x":                          "rel/x",
		"file://./with%20space":                   "with space",
		"file://../" + filepath.Base(dir) + "/up": "up",
	} {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		b, err := OpenURL(ctx, u)
		require.NoError(t, err, raw)
		require.NoError(t, put(b, "k", "x", createOnly()))
		require.NoError(t, b.Close())
		require.FileExists(t, filepath.Join(dir, want, "k"))
	}
}

func TestOpenURLRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for raw, want := range map[string]string{
		"file:///x?create_dir=1&no_tmp_dir=1": `["create_dir" "no_tmp_dir"]`,
		"file:///x?a;b":                       "semicolon",
		"s3://bucket":                         `"s3"`,
		"file://data/x":                       "file:///data/x",
		"file:x":                              "file://./relative/path",
		"file://":                             "path is empty",
		"file://user@localhost/x":             "file:///absolute/path",
		"file:///x#y":                         "file:///absolute/path",
		"file:///x%00y":                       "zero byte",
	} {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		_, err = OpenURL(ctx, u)
		require.ErrorContains(t, err, want, raw)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Open makes the directories it creates durable, from the first one that existed.
func TestOpenSyncsNewRoot(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "a", "b")
	rec := &recorder{}
	b := openTapped(t, root, rec.tap)
	require.True(t, newPower(base).play(rec.trace()).survives(base, root))
	require.NoError(t, put(b, "k", "x", createOnly()))
	require.True(t, newPower(base).play(rec.trace()).survives(base, filepath.Join(root, "k")))
}

func TestOpenFailsWhereAStepFails(t *testing.T) {
	rec := &recorder{}
	base := t.TempDir()
	openTapped(t, filepath.Join(base, "a", "b"), rec.tap)
	for i, c := range rec.trace() {
		dir := filepath.Join(t.TempDir(), "a", "b")
		failing := &recorder{}
		failing.reset(func(n int, _ call) error {
			if n == i {
				return os.ErrDeadlineExceeded
			}
			return nil
		})
		_, err := openBucket(dir, nil, disk{tap: failing.tap})
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "step %d, %s %s", i, c.step, c.path)
		require.ErrorContains(t, err, dir)
	}
}

func TestOpenOnAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(file, nil)
	require.ErrorContains(t, err, file)
	_, err = Open(filepath.Join(file, "below"), nil)
	require.ErrorContains(t, err, file)
	_, err = Open("", nil)
	require.Error(t, err)
}

// A root that is taken away under an open bucket is an error, not a new bucket.
func TestRootTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	b := openTest(t, dir)
	require.NoError(t, put(b, "a/k", "x", createOnly()))
	require.NoError(t, os.RemoveAll(dir))
	require.Error(t, put(b, "a/k", "x", createOnly()))
	require.NoDirExists(t, dir)
}

// A directory below the root that is taken away is made, and made durable, again.
func TestDirectoryTakenAway(t *testing.T) {
	dir := t.TempDir()
	rec := &recorder{}
	b := openTapped(t, dir, rec.tap)
	require.NoError(t, put(b, "a/b/k", "x", createOnly()))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "a")))
	rec.reset(nil)
	require.NoError(t, put(b, "a/b/k", "y", createOnly()))
	require.True(t, newPower(dir).play(rec.trace()).survives(dir, filepath.Join(dir, "a", "b", "k")))
}

// A parent that is not ours to open or sync is the administrator's business when the
// root was there before, and an error when it has to be made.
func TestParentOfAnotherUser(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "root")
	for _, refused := range []step{stepOpenDir, stepMkdir, stepSyncDir} {
		d := disk{tap: func(c call) error {
			about := c.path == base || c.step == stepMkdir && c.path == root
			if about && c.step == refused {
				return os.ErrPermission
			}
			return nil
		}}
		_, err := openBucket(root, nil, d)
		require.ErrorIs(t, err, os.ErrPermission, refused)
		require.NoError(t, os.RemoveAll(root))

		require.NoError(t, os.Mkdir(root, 0o700))
		b, err := openBucket(root, nil, d)
		require.NoError(t, err, refused)
		require.NoError(t, b.Close())
		require.NoError(t, os.RemoveAll(root))
	}
}
