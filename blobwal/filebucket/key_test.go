package filebucket

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/gcerrors"
)

func TestKeyPaths(t *testing.T) {
	for key, want := range map[string]string{
		"a":                                    "a",
		"a/b/c":                                "a/b/c",
		"/":                                    "%/%",
		"/etc/passwd":                          "%/etc/passwd",
		"a//b":                                 "a/%/b",
		"a/":                                   "a/%",
		"..":                                   "%2E%2E",
		"../../etc/passwd":                     "%2E%2E/%2E%2E/etc/passwd",
		"a/./b/../c":                           "a/%2E/b/%2E%2E/c",
		"...":                                  "...",
		"100%":                                 "100%25",
		"%2E%2E/x":                             "%252E%252E/x",
		"%":                                    "%25",
		`a\b`:                                  "a%5Cb",
		"nul\x00,tab\t,del\x7f":                "nul%00,tab%09,del%7F",
		".filebucket":                          "%2Efilebucket",
		".FileBucket/x":                        "%2EFileBucket/x",
		".filebucket2":                         ".filebucket2",
		"späť ☺":                               "späť ☺",
		"a/" + strings.Repeat("n", maxNameLen): "a/" + strings.Repeat("n", maxNameLen),
	} {
		path, err := keyPath("/root", key)
		require.NoError(t, err, "%q", key)
		require.Equal(t, "/root/"+want, path, "%q", key)
	}
}

func TestKeysThatCannotBeStored(t *testing.T) {
	b := openTest(t, t.TempDir())
	for name, key := range map[string]string{
		"too long":                 strings.Repeat("k/", MaxKeyLen/2) + "k",
		"segment too long":         "a/" + strings.Repeat("n", maxNameLen+1),
		"escaped segment too long": strings.Repeat("%", 86),
	} {
		err := put(b, key, "x", createOnly())
		require.Equal(t, gcerrors.InvalidArgument, gcerrors.Code(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "limit", name)
	}
}

// Hostile keys are stored like any other, and nothing appears outside of the root
// or in the staging directory.
func TestHostileKeysStayBelowTheRoot(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "root")
	b := openTest(t, dir)
	keys := []string{
		"../escape", "../../escape", "/escape", "//escape", "a/../../escape", "b/..", "b/.", "./escape", "c/..",
		"\x00/escape", "..\\escape", "%2e%2e/escape", ".filebucket/escape", ".FILEBUCKET/escape", "a/.filebucket/escape",
		"~/escape", "$(escape)", "-rf", "a\nb",
	}
	for _, key := range keys {
		require.NoError(t, put(b, key, key, createOnly()), "%q", key)
	}
	for _, key := range keys {
		got, err := b.ReadAll(ctx, key)
		require.NoError(t, err)
		require.Equal(t, key, string(got))
	}
	require.Len(t, listAll(t, b, nil, 100), len(keys))
	outside, err := os.ReadDir(outer)
	require.NoError(t, err)
	require.Len(t, outside, 1)
	requireNoTemporaries(t, dir)
}

// A key and one that continues it cannot both be files. That is a refusal of the
// key, never the answer that it exists.
func TestKeyBesideDirectory(t *testing.T) {
	b := openTest(t, t.TempDir())
	require.NoError(t, put(b, "a/b", "x", createOnly()))
	for _, key := range []string{"a", "a/b/c", "a/b/c/d"} {
		for _, once := range []bool{true, false} {
			opts := createOnly()
			opts.IfNotExist = once
			err := put(b, key, "x", opts)
			require.Equal(t, gcerrors.InvalidArgument, gcerrors.Code(err), "%s: %v", key, err)
			require.ErrorIs(t, err, errConflict)
		}
		_, err := b.ReadAll(ctx, key)
		require.Equal(t, gcerrors.NotFound, gcerrors.Code(err))
		require.Equal(t, gcerrors.NotFound, gcerrors.Code(b.Delete(ctx, key)), key)
	}
	got, err := b.ReadAll(ctx, "a/b")
	require.NoError(t, err)
	require.Equal(t, "x", string(got))
}

func FuzzKey(f *testing.F) {
	for _, seed := range []string{"", ".", "a/b", "../x", "//", "%2F", ".filebucket", "\x00", "a%", "é/\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if segment, ok := unescapeSegment(s); ok && escapeSegment(segment) != s {
			t.Fatalf("name %q is taken for segment %q, whose name is %q", s, segment, escapeSegment(segment))
		}
		path, err := keyPath("/r", s)
		if err != nil {
			return
		}
		if filepath.Clean(path) != path || !strings.HasPrefix(path, "/r/") {
			t.Fatalf("key %q has path %q", s, path)
		}
		names := strings.Split(path[len("/r/"):], "/")
		for i, name := range names {
			if isStagingName(name) {
				t.Fatalf("key %q has the staging directory in its path", s)
			}
			segment, ok := unescapeSegment(name)
			if !ok {
				t.Fatalf("key %q has a name that is not listed: %q", s, name)
			}
			names[i] = segment
		}
		if back := strings.Join(names, "/"); back != s {
			t.Fatalf("key %q comes back as %q", s, back)
		}
	})
}
