package filebucket

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// crashEnv makes the test binary a process that kills itself in the middle of a put.
const crashEnv = "FILEBUCKET_TEST_CRASH"

func TestMain(m *testing.M) {
	if spec, ok := os.LookupEnv(crashEnv); ok {
		crash(spec)
	}
	os.Exit(m.Run())
}

// crash puts key a/k in a directory and is killed before the step with a number.
// Its temporary has a name or, if it can, has none.
func crash(spec string) {
	named, rest, _ := strings.Cut(spec, ":")
	number, dir, _ := strings.Cut(rest, ":")
	at, err := strconv.Atoi(number)
	if err != nil {
		panic(err)
	}
	rec := &recorder{}
	driver, err := openBucket(dir, nil, disk{tap: rec.tap, named: named == "named"})
	if err != nil {
		panic(err)
	}
	rec.reset(func(n int, _ call) error {
		if n == at {
			return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), errors.New("outlived SIGKILL"))
		}
		return nil
	})
	if err := put(blob.NewBucket(driver), "a/k", newContent, createOnly()); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// A process killed before any step leaves the key absent or complete, and its
// temporary goes at the next Open.
func TestKilledProcess(t *testing.T) {
	for _, named := range []string{"named", "unnamed"} {
		t.Run(named, func(t *testing.T) { killAtEveryStep(t, named) })
	}
}

func killAtEveryStep(t *testing.T, named string) {
	for at := 0; ; at++ {
		dir := t.TempDir()
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), crashEnv+"="+named+":"+strconv.Itoa(at)+":"+dir)
		out, err := cmd.CombinedOutput()
		if err == nil {
			require.Greater(t, at, 9, "the put has more steps")
			return // it came to its end: every step had its crash
		}
		require.Equal(t, syscall.SIGKILL, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(), "%s", out)
		names, err := filepath.Glob(filepath.Join(dir, stagingName, "*"))
		require.NoError(t, err)
		require.NotEmpty(t, names)

		b := openTest(t, dir)
		requireNoTemporaries(t, dir)
		got, err := b.ReadAll(ctx, "a/k")
		if gcerrors.Code(err) != gcerrors.NotFound {
			require.NoError(t, err)
			require.Equal(t, newContent, string(got))
		}
		err = put(b, "a/k", newContent, createOnly())
		if err != nil {
			require.Equal(t, gcerrors.FailedPrecondition, gcerrors.Code(err))
		}
		require.NoError(t, b.Close())
		names, err = filepath.Glob(filepath.Join(dir, stagingName, "*"))
		require.NoError(t, err)
		require.Empty(t, names)
	}
}

// Open leaves alone what a living bucket is writing, in this process as in others,
// and files that are not of this package's making.
func TestSweepSparesTheLiving(t *testing.T) {
	dir := t.TempDir()
	living := openOn(t, dir, disk{named: true})
	w, err := living.NewWriter(ctx, "k", createOnly())
	require.NoError(t, err)
	_, err = w.Write([]byte("first half, "))
	require.NoError(t, err)
	stale := filepath.Join(dir, stagingName, "deadid-7")
	foreign := filepath.Join(dir, stagingName, "README")
	require.NoError(t, os.WriteFile(stale, nil, 0o600))
	require.NoError(t, os.WriteFile(foreign, nil, 0o600))

	for range 3 {
		other := openTest(t, dir)
		require.NoError(t, put(other, "other", "x", overwrite()))
		require.NoError(t, other.Close())
	}
	require.NoFileExists(t, stale)
	require.FileExists(t, foreign)

	_, err = w.Write([]byte("second half"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	got, err := living.ReadAll(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "first half, second half", string(got))
}

// A put that outlives its bucket fails when its temporary, which had a name, was
// swept; it never reports success for bytes that are gone.
func TestPutAfterItsTemporaryWasSwept(t *testing.T) {
	dir := t.TempDir()
	for _, once := range []bool{true, false} {
		b := openOn(t, dir, disk{named: true})
		opts := createOnly()
		opts.IfNotExist = once
		w, err := b.NewWriter(ctx, "k", opts)
		require.NoError(t, err)
		_, err = w.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, b.Close())
		openTest(t, dir)
		err = w.Close()
		require.Error(t, err)
		require.Equal(t, gcerrors.Unknown, gcerrors.Code(err))
	}
}

// Many processes opening and closing at once never take each other's files.
func TestConcurrentOpens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "all")
	inParallel(8, func(i int) {
		for range 10 {
			b, err := Open(dir, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if err := put(b, "k"+strconv.Itoa(i), "x", overwrite()); err != nil {
				t.Error(err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	entries, err := os.ReadDir(filepath.Join(dir, stagingName))
	require.NoError(t, err)
	require.Empty(t, entries)
}

// overwrite are the options of an overwriting put.
func overwrite() *blob.WriterOptions { return &blob.WriterOptions{ContentType: defaultContentType} }
