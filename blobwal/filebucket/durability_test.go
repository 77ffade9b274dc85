package filebucket

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

var ctx = context.Background()

// scenario is a put on a bucket that before has prepared.
type scenario struct {
	name   string
	before func(t *testing.T, b *blob.Bucket)
	reopen bool // a fresh process: nothing is known to be durable
	key    string
	opts   blob.WriterOptions
	want   []string // the steps, paths below the root, T for the temporary
	exists bool     // the put must answer that the key exists
	named  bool     // temporaries have names, also where they need none
}

const oldContent, newContent = "the old content", "the new content, somewhat longer"

func putOld(key string) func(*testing.T, *blob.Bucket) {
	return func(t *testing.T, b *blob.Bucket) {
		t.Helper()
		require.NoError(t, put(b, key, oldContent, createOnly()))
	}
}

func put(b *blob.Bucket, key, content string, opts *blob.WriterOptions) error {
	return b.Upload(ctx, key, strings.NewReader(content), opts)
}

// scenarios are every way of a put, with temporaries that have names and, where
// the system can, with those that have none: nothing of them is to be removed.
func scenarios(t *testing.T) (all []scenario) {
	unnamed := canUnnamed(t.TempDir(), "probe")
	for _, s := range namedScenarios() {
		if unnamed {
			without := s
			if s.opts.IfNotExist {
				without.want = slices.DeleteFunc(slices.Clone(s.want), func(step string) bool { return step == "unlink T" })
			}
			all = append(all, without)
		}
		s.named = true
		s.name += ", named temporaries"
		all = append(all, s)
	}
	return all
}

func namedScenarios() []scenario {
	once, over := *createOnly(), *overwrite()
	typed := blob.WriterOptions{ContentType: "text/plain", IfNotExist: true}
	return []scenario{
		{
			// The common case: one file, one fsync of it, one of its directory.
			name: "new key", key: "k", opts: once,
			want: []string{
				"create T", "write T", "sync-file T", "open-dir .", "link k", "sync-dir .", "close T", "unlink T",
			},
		},
		{
			name: "new key with attributes", key: "k", opts: typed,
			want: []string{
				"create T", "write T", "write T", "sync-file T", "open-dir .", "link k", "sync-dir .", "close T", "unlink T",
			},
		},
		{
			name: "new directories", key: "a/b/k", opts: once,
			want: []string{
				"create T", "write T", "sync-file T",
				"open-dir .", "mkdir a", "sync-dir .", "open-dir a", "mkdir a/b", "sync-dir a",
				"open-dir a/b", "link a/b/k", "sync-dir a/b", "close T", "unlink T",
			},
		},
		{
			name: "directories made by this bucket", before: putOld("a/b/other"), key: "a/b/k", opts: once,
			want: []string{
				"create T", "write T", "sync-file T", "open-dir a/b", "link a/b/k", "sync-dir a/b", "close T", "unlink T",
			},
		},
		{
			name: "directories of which nothing is known", before: putOld("a/other"), reopen: true, key: "a/k", opts: once,
			want: []string{
				"create T", "write T", "sync-file T",
				"open-dir .", "mkdir a", "sync-dir .", "open-dir a", "link a/k", "sync-dir a", "close T", "unlink T",
			},
		},
		{
			name: "key exists", before: putOld("a/k"), key: "a/k", opts: once, exists: true,
			want: []string{
				"create T", "write T", "sync-file T",
				"open-dir a", "link a/k", "sync-file a/k", "sync-dir a", "close T", "unlink T",
			},
		},
		{
			name: "overwrite", before: putOld("a/k"), key: "a/k", opts: over,
			want: []string{
				"create T", "write T", "sync-file T", "open-dir a", "rename a/k", "sync-dir a", "close T", "unlink T",
			},
		},
	}
}

// stage is a scenario made ready on a directory of its own.
type stage struct {
	dir    string
	rec    *recorder
	bucket *blob.Bucket
	past   []call // the steps so far
}

func (s scenario) stage(t *testing.T) *stage {
	t.Helper()
	st := &stage{dir: t.TempDir(), rec: &recorder{}}
	open := func() *blob.Bucket { return openOn(t, st.dir, disk{tap: st.rec.tap, named: s.named}) }
	st.bucket = open()
	if s.before != nil {
		s.before(t, st.bucket)
	}
	if s.reopen {
		require.NoError(t, st.bucket.Close())
		st.bucket = open()
	}
	st.past = st.rec.trace()
	st.rec.reset(nil)
	return st
}

// power is the model after the past and then trace.
func (st *stage) power(trace []call) *power {
	return newPower(st.dir).play(st.past).play(trace)
}

// short spells a trace as scenarios do.
func (st *stage) short(trace []call) []string {
	var out []string
	for _, c := range trace {
		path, _ := filepath.Rel(st.dir, c.path)
		if strings.HasPrefix(path, stagingName) {
			path = "T"
		}
		out = append(out, string(c.step)+" "+path)
	}
	return out
}

func TestPutMakesItsStepsInOrder(t *testing.T) {
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			st := s.stage(t)
			err := put(st.bucket, s.key, newContent, &s.opts)
			if s.exists {
				require.Equal(t, gcerrors.FailedPrecondition, gcerrors.Code(err), "%v", err)
			} else {
				require.NoError(t, err)
			}
			if diff := cmp.Diff(s.want, st.short(st.rec.trace())); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			require.True(t, st.power(st.rec.trace()).survives(st.dir, filepath.Join(st.dir, s.key)))
			requireNoTemporaries(t, st.dir)
		})
	}
}

// Every fsync is there because without it power loss would lose the object: leave
// one out and the model loses it. (Where the key exists, or a former process made
// the directories, the fsync repeats one whose success is not known here.)
func TestNoFsyncIsSuperfluous(t *testing.T) {
	for _, s := range scenarios(t) {
		if s.exists || s.reopen {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			st := s.stage(t)
			require.NoError(t, put(st.bucket, s.key, newContent, &s.opts))
			trace := st.rec.trace()
			path := filepath.Join(st.dir, s.key)
			for i, c := range trace {
				if c.step != stepSyncFile && c.step != stepSyncDir {
					continue
				}
				p := st.power(slices.Delete(slices.Clone(trace), i, i+1))
				whole := p.survives(st.dir, path) && p.durable[path] == p.live[path]
				require.False(t, whole, "survives without step %d, %s %s", i, c.step, c.path)
			}
		})
	}
}

// Any step may fail in any put. Then the put does not succeed, the key is as before
// or complete, no temporary stays, and other keys work.
func TestAnyStepFails(t *testing.T) {
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			for i, step := range s.want {
				for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
					t.Run(strings.ReplaceAll(step, "/", "_")+"/"+errno.Error(), func(t *testing.T) {
						s.failStep(t, i, errno)
					})
				}
			}
		})
	}
}

func (s scenario) failStep(t *testing.T, step int, errno syscall.Errno) {
	t.Helper()
	st := s.stage(t)
	st.rec.reset(func(n int, _ call) error {
		if n == step {
			return errno
		}
		return nil
	})
	err := put(st.bucket, s.key, newContent, &s.opts)
	trace := st.rec.trace()
	failed := trace[step].step
	if failed == stepClose || failed == stepUnlink {
		// The object is durable; the temporary may wait for a sweep.
		require.Equal(t, s.exists, err != nil)
		require.NoError(t, st.bucket.Close())
		openTest(t, st.dir)
		requireNoTemporaries(t, st.dir)
		return
	}
	require.ErrorIs(t, err, errno)
	require.NotEqual(t, gcerrors.FailedPrecondition, gcerrors.Code(err), "a failure is not the answer that the key exists")
	require.ErrorContains(t, err, s.key)
	require.ErrorContains(t, err, filepath.Join(st.dir, s.key))
	requireNoTemporaries(t, st.dir)
	s.requireWhole(t, st)

	// What fsync refused once is not asked again.
	st.rec.reset(nil)
	retry := put(st.bucket, s.key, newContent, &s.opts)
	for _, c := range st.rec.trace() {
		if c.step == stepSyncFile || c.step == stepSyncDir {
			refused := failed == c.step && trace[step].path == c.path
			require.False(t, refused, "%s %s was tried again", c.step, c.path)
		}
	}
	if failed == stepSyncDir || s.exists && failed == stepSyncFile && trace[step].path == filepath.Join(st.dir, s.key) {
		require.ErrorIs(t, retry, errUnsynced)
	} else if !s.exists {
		require.NoError(t, retry)
	}
	if !strings.Contains(s.want[step], "sync-dir .") {
		require.NoError(t, put(st.bucket, "unrelated/key", oldContent, createOnly()))
	}
}

// requireWhole checks that the key is as before the put, or has the new content.
func (s scenario) requireWhole(t *testing.T, st *stage) {
	t.Helper()
	got, err := st.bucket.ReadAll(ctx, s.key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		require.NotContains(t, []string{"key exists", "overwrite"}, strings.TrimSuffix(s.name, ", named temporaries"))
		return
	}
	require.NoError(t, err)
	require.Contains(t, []string{oldContent, newContent}, string(got))
}

// A directory that somebody else has created but not yet synced is synced by the
// put that uses it: the creator may lose power before it comes to it.
func TestDirectoryOfAnotherWriterIsSynced(t *testing.T) {
	dir := t.TempDir()
	rec := &recorder{}
	slow, fast := openTapped(t, dir, rec.tap), openTapped(t, dir, rec.tap)

	made, release := make(chan struct{}), make(chan struct{})
	var pausedAt int
	rec.reset(func(n int, c call) error {
		if c.step == stepSyncDir && c.path == dir && pausedAt == 0 {
			pausedAt = n
			close(made)
			<-release
		}
		return nil
	})
	done := make(chan error)
	go func() { done <- put(slow, "a/slow", newContent, createOnly()) }()
	<-made // a exists now, and its creator has not synced the root

	require.NoError(t, put(fast, "a/fast", newContent, createOnly()))
	trace := slices.Delete(rec.trace(), pausedAt, pausedAt+1) // that fsync did not happen yet
	require.True(t, newPower(dir).play(trace).survives(dir, filepath.Join(dir, "a", "fast")))

	close(release)
	require.NoError(t, <-done)
	require.True(t, newPower(dir).play(rec.trace()).survives(dir, filepath.Join(dir, "a", "slow")))
}

// A directory whose fsync failed stays refused, also for deletes and for the answer
// that a key exists, until the bucket is opened again. Reads and others go on.
func TestFailedDirectory(t *testing.T) {
	dir := t.TempDir()
	rec := &recorder{}
	b := openTapped(t, dir, rec.tap)
	require.NoError(t, put(b, "bad/old", oldContent, createOnly()))
	rec.reset(func(_ int, c call) error {
		if c.step == stepSyncDir {
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, put(b, "bad/new", newContent, createOnly()), syscall.EIO)
	rec.reset(nil)

	for _, key := range []string{"bad/old", "bad/new", "bad/newer"} {
		require.ErrorIs(t, put(b, key, newContent, createOnly()), errUnsynced, key)
	}
	require.ErrorIs(t, b.Delete(ctx, "bad/old"), errUnsynced)
	for _, c := range rec.trace() {
		require.NotEqual(t, stepSyncDir, c.step)
	}
	require.NoError(t, put(b, "good/new", newContent, createOnly()))
	got, err := b.ReadAll(ctx, "bad/old")
	require.NoError(t, err)
	require.Equal(t, oldContent, string(got))

	again := openTest(t, dir)
	require.NoError(t, put(again, "bad/newer", newContent, createOnly()))
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	rec := &recorder{}
	b := openTapped(t, dir, rec.tap)
	rec.reset(func(_ int, c call) error {
		if c.step == stepWrite {
			return &os.PathError{Op: "write", Path: c.path, Err: syscall.ENOSPC}
		}
		return nil
	})
	err := put(b, "log/7", newContent, createOnly())
	require.Equal(t, gcerrors.ResourceExhausted, gcerrors.Code(err))
	require.ErrorContains(t, err, `"log/7"`)
	require.ErrorContains(t, err, filepath.Join(dir, "log", "7"))
	require.ErrorContains(t, err, "the disk is full")
	requireNoTemporaries(t, dir)

	rec.reset(nil)
	require.NoError(t, put(b, "log/7", newContent, createOnly()))
}

// A context cancelled at any step before the name is given leaves nothing; one
// cancelled later does not stop the put half way.
func TestCancelledPut(t *testing.T) {
	for _, s := range scenarios(t) {
		t.Run(s.name, func(t *testing.T) {
			for i := range s.want {
				s.cancelAt(t, i)
			}
		})
	}
}

func (s scenario) cancelAt(t *testing.T, step int) {
	t.Helper()
	st := s.stage(t)
	cctx, cancel := context.WithCancel(ctx)
	defer cancel()
	named := false
	st.rec.reset(func(n int, c call) error {
		if n == step {
			cancel()
		}
		named = named || c.step == stepLink || c.step == stepRename
		return nil
	})
	err := st.bucket.Upload(cctx, s.key, bytes.NewReader([]byte(newContent)), &s.opts)
	requireNoTemporaries(t, st.dir)
	s.requireWhole(t, st)
	if named {
		require.Equal(t, s.exists, err != nil)
		require.True(t, st.power(st.rec.trace()).survives(st.dir, filepath.Join(st.dir, s.key)))
		return
	}
	require.ErrorIs(t, err, context.Canceled)
	if s.before == nil {
		exists, err := st.bucket.Exists(ctx, s.key)
		require.NoError(t, err)
		require.False(t, exists)
	}
}

func TestDeleteIsDurable(t *testing.T) {
	s := scenario{before: putOld("a/k")}
	st := s.stage(t)
	require.NoError(t, st.bucket.Delete(ctx, "a/k"))
	require.Equal(t, []string{"open-dir a", "unlink a/k", "sync-dir a"}, st.short(st.rec.trace()))

	st.rec.reset(nil)
	require.Equal(t, gcerrors.NotFound, gcerrors.Code(st.bucket.Delete(ctx, "a/k")))
	require.Contains(t, st.short(st.rec.trace()), "sync-dir a", "an unlink by somebody else may not be synced yet")

	for i := range 3 {
		st := s.stage(t)
		st.rec.reset(func(n int, _ call) error {
			if n == i {
				return syscall.EIO
			}
			return nil
		})
		require.ErrorIs(t, st.bucket.Delete(ctx, "a/k"), syscall.EIO)
	}
}

// requireNoTemporaries checks that staging holds lock files only.
func requireNoTemporaries(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, stagingName))
	require.NoError(t, err)
	for _, e := range entries {
		require.True(t, strings.HasSuffix(e.Name(), lockSuffix), "left behind: %s", e.Name())
	}
}
