package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/fsck"
)

// fsckRun is how `picomq fsck` ended and what it said.
type fsckRun struct {
	code     int
	out, err string
}

func runFsck(t *testing.T, flags ...string) fsckRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, append([]string{"fsck"}, flags...)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &errs, t.TempDir()
	_ = cmd.Run() // how it ended is in ProcessState
	require.NoError(t, context.Cause(ctx))
	return fsckRun{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// served is a data folder that a server was stopped with, which had streams.
func served(t *testing.T) (data string) {
	t.Helper()
	data = t.TempDir()
	server := launch(t, data, nil)
	for _, name := range []string{"a", "b"} {
		say(t, server.URL, "append", "--create", name)
	}
	during := runFsck(t, "--data", data)
	require.Equal(t, 3, during.code)
	require.Contains(t, during.err, "in use by process")
	requireOneLine(t, during.err)
	stop(t, server, syscall.SIGTERM)
	return data
}

// say runs a client command with a line to send.
func say(t *testing.T, url string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append(args, "--endpoint", url)...)
	cmd.Stdin = strings.NewReader("hello\n")
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
}

// segmentFiles are the segments of a data folder, by path.
func segmentFiles(t *testing.T, data string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".seg") {
			paths = append(paths, path)
		}
		return err
	}))
	require.NotEmpty(t, paths)
	return paths
}

func TestFsckOfADataFolder(t *testing.T) {
	data := served(t)
	clean := runFsck(t, "--data", data)
	require.Zero(t, clean.code, clean)
	require.Empty(t, clean.err)
	require.Contains(t, clean.out, "checked 2 streams, 2 extents and 2 segments")
	require.Contains(t, clean.out, "all is well")

	victim := segmentFiles(t, data)[0]
	before, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.NoError(t, os.Remove(victim))
	missing := runFsck(t, "--data", data, "--parallel", "1", "--repair")
	require.Equal(t, 1, missing.code)
	require.Contains(t, missing.out, ": missing: the bucket does not have it; it holds records 0 of stream \"a\"")
	requireOneLine(t, missing.err)
	require.Contains(t, missing.err, "1 of what was found")

	before[80] ^= 1
	require.NoError(t, os.WriteFile(victim, before, 0o600))
	altered := runFsck(t, "--data", data, "--json")
	require.Equal(t, 1, altered.code)
	lines := strings.Split(strings.TrimSpace(altered.out), "\n")
	require.Len(t, lines, 2)
	var finding struct{ Severity, Kind, Object, What, Do string }
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &finding))
	require.Equal(t, []string{"error", "checksum"}, []string{finding.Severity, finding.Kind})
	require.True(t, strings.HasSuffix(victim, finding.Object), finding.Object)
	var last struct {
		Summary struct{ Errors, Warnings, Streams int }
	}
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &last))
	require.Equal(t, []int{1, 0, 2}, []int{last.Summary.Errors, last.Summary.Warnings, last.Summary.Streams})
	require.Zero(t, runFsck(t, "--data", data, "--quick").code, "the ends of the objects are good")
}

// TestFsckRepairsOrphans: what a server left that was killed, another later.
func TestFsckRepairsOrphans(t *testing.T) {
	data := served(t)
	server := launch(t, data, nil) // fences the first start
	stop(t, server, syscall.SIGTERM)
	segment := segmentFiles(t, data)[0]
	content, err := os.ReadFile(segment)
	require.NoError(t, err)
	orphan := filepath.Join(filepath.Dir(segment), "00000000000000ff.seg")
	require.NoError(t, os.WriteFile(orphan, content, 0o600))

	found := runFsck(t, "--data", data)
	require.Equal(t, 1, found.code)
	require.Contains(t, found.out, ": orphan: nothing refers to its")
	repaired := runFsck(t, "--data", data, "--repair")
	require.Zero(t, repaired.code, repaired)
	require.Contains(t, repaired.out, "; repaired")
	require.Contains(t, repaired.out, "1 warning, 1 of them repaired")
	require.NoFileExists(t, orphan)
	require.FileExists(t, segment)
	require.Zero(t, runFsck(t, "--data", data).code)
}

// TestFsckWhoseOutputIsReadNoMore ends quietly, as other commands do.
func TestFsckWhoseOutputIsReadNoMore(t *testing.T) {
	data := served(t)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, "fsck", "--data", data)
	cmd.Stdout, cmd.Stderr = writer, &errs
	_ = cmd.Run() // how it ended is in ProcessState
	require.NoError(t, writer.Close())
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGPIPE, status.Signal())
	require.Empty(t, errs.String())
}

func TestFsckRefuses(t *testing.T) {
	for _, flags := range [][]string{
		{"--data", ""}, {"--parallel", "0"}, {"--parallel", "257"}, {"--storage", "mem://"}, {"--storage", "nonsense"}, {"extra"}, {"--nonsense"},
	} {
		r := runFsck(t, flags...)
		require.Equal(t, 2, r.code, flags)
		requireOneLine(t, r.err)
	}
	empty := t.TempDir()
	for _, flags := range [][]string{
		{"--data", empty},
		{"--meta-url", "sqlite://" + empty + "/none.db"},
		{"--meta-url", "mysql://x", "--storage", "file://" + empty},
		{"--meta-url", "postgres://127.0.0.1:1/x?connect_timeout=1", "--storage", "file://" + empty},
	} {
		r := runFsck(t, flags...)
		require.Equal(t, 3, r.code, flags)
		requireOneLine(t, r.err)
	}
	entries, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing was made where nothing was")
}

// TestFsckLeavesTheLogAsItIs: that of a server which was killed, and one whose
// schema is older, which it says how to check.
func TestFsckLeavesTheLogAsItIs(t *testing.T) {
	data := t.TempDir()
	server := launch(t, data, nil)
	say(t, server.URL, "append", "--create", "a")
	require.NoError(t, server.Kill())
	<-server.Exited()
	log := filepath.Join(data, logFile)
	kept := func() (files []string) {
		for _, name := range []string{log, log + "-wal"} {
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			files = append(files, string(content))
		}
		return files
	}
	before := kept()
	for range 2 {
		r := runFsck(t, "--data", data)
		require.Zero(t, r.code, r)
		require.True(t, slices.Equal(before, kept()), "the files are as they were")
	}

	db, err := sql.Open("sqlite", log)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "DELETE FROM picomq_migrations WHERE name = (SELECT max(name) FROM picomq_migrations)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	r := runFsck(t, "--data", data)
	require.Equal(t, 3, r.code)
	requireOneLine(t, r.err)
	require.Contains(t, r.err, `let "picomq serve" of this one bring it up to date`)
}

// TestManyOrphansAreSummedUp: for people. For programs each has a line.
func TestManyOrphansAreSummedUp(t *testing.T) {
	for asJSON, lines := range map[bool]int{false: orphansTold + 3, true: orphansTold + 7} {
		var out strings.Builder
		say := printer(&out, asJSON)
		for i := range orphansTold + 5 {
			require.NoError(t, say(fsck.Finding{Severity: fsck.Warning, Kind: fsck.Orphan, Object: fmt.Sprint("object", i)}))
		}
		require.NoError(t, say(fsck.Finding{Severity: fsck.Error, Kind: fsck.Missing, Object: "another"}))
		require.NoError(t, say(&fsck.Report{}))
		require.Equal(t, lines, strings.Count(strings.TrimSpace(out.String()), "\n")+1, out.String())
		require.Contains(t, out.String(), "another")
		require.Equal(t, !asJSON, strings.Contains(out.String(), "and 5 orphans more"))
	}
}
