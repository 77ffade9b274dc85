package filebucket

import (
	"fmt"
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
	"pgregory.net/rapid"
)

// listAll lists page by page.
func listAll(t require.TestingT, b *blob.Bucket, opts *blob.ListOptions, pageSize int) []*blob.ListObject {
	var all []*blob.ListObject
	token := blob.FirstPageToken
	for token != nil {
		page, next, err := b.ListPage(ctx, token, pageSize, opts)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), pageSize)
		all, token = append(all, page...), next
	}
	return all
}

// modelList is what a list must return: sort, filter, cut, drop repetitions.
func modelList(keys []string, prefix, delimiter string) []string {
	var names []string
	for _, key := range keys {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		if before, _, ok := strings.Cut(rest, delimiter); ok && delimiter != "" {
			key = prefix + before + delimiter
		}
		names = append(names, key)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestListAgainstModel(t *testing.T) {
	segment := rapid.StringOfN(rapid.SampledFrom([]rune("ab-.%/\\\x01é")), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "filebucket")
		require.NoError(t, err)
		defer func() { _ = os.RemoveAll(dir) }()
		b, err := Open(dir, nil)
		require.NoError(t, err)
		defer func() { _ = b.Close() }()

		var keys []string
		for range rapid.IntRange(0, 15).Draw(t, "keys") {
			key := strings.Join(rapid.SliceOfN(segment, 1, 3).Draw(t, "key"), "/")
			switch err := put(b, key, "x", createOnly()); gcerrors.Code(err) {
			case gcerrors.OK:
				keys = append(keys, key)
			case gcerrors.FailedPrecondition, gcerrors.InvalidArgument: // there already, or beside a directory
			default:
				t.Fatal(err)
			}
		}
		prefix := segment.Draw(t, "prefix")
		if len(keys) > 0 && rapid.Bool().Draw(t, "prefix of a key") {
			key := rapid.SampledFrom(keys).Draw(t, "of")
			prefix = strings.ToValidUTF8(key[:rapid.IntRange(0, len(key)).Draw(t, "length")], "")
		}
		delimiter := rapid.SampledFrom([]string{"", "/", "-", "a/", "//"}).Draw(t, "delimiter")
		pageSize := rapid.IntRange(1, 5).Draw(t, "page size")

		var got []string
		for _, o := range listAll(t, b, &blob.ListOptions{Prefix: prefix, Delimiter: delimiter}, pageSize) {
			got = append(got, o.Key)
			require.Equal(t, o.IsDir, delimiter != "" && strings.Contains(o.Key[len(prefix):], delimiter))
		}
		if diff := cmp.Diff(modelList(keys, prefix, delimiter), got); diff != "" {
			t.Fatalf("keys %q prefix %q delimiter %q (-want +got):\n%s", keys, prefix, delimiter, diff)
		}
	})
}

// A list reads only directories that can hold what is asked for, and says so when
// it cannot read one of them.
func TestListWalksOnlyThePrefix(t *testing.T) {
	dir := t.TempDir()
	rec := &recorder{}
	b := openTapped(t, dir, rec.tap)
	for _, key := range []string{"a/1", "a/x/2", "a/y/3", "a/z/4", "b/1", "c/1/2"} {
		require.NoError(t, put(b, key, "x", createOnly()))
	}
	for _, tc := range []struct {
		opts  blob.ListOptions
		token string
		reads []string
		keys  int
	}{
		{opts: blob.ListOptions{Prefix: "a/"}, reads: []string{"a", "a/x", "a/y", "a/z"}, keys: 4},
		{opts: blob.ListOptions{Prefix: "a/y"}, reads: []string{"a", "a/y"}, keys: 1},
		{opts: blob.ListOptions{Prefix: "a/"}, token: "a/y/3", reads: []string{"a", "a/y", "a/z"}, keys: 1},
		{opts: blob.ListOptions{Prefix: "a/1/x"}, reads: []string{"a/1"}},
		{opts: blob.ListOptions{Prefix: "none/x"}, reads: []string{"none"}},
		{opts: blob.ListOptions{Prefix: strings.Repeat("long", 300)}, reads: []string{"."}},
		{opts: blob.ListOptions{Prefix: strings.Repeat("long", 300) + "/"}, reads: nil},
		{opts: blob.ListOptions{Delimiter: "/"}, token: "a/", reads: []string{".", "b", "c", "c/1"}, keys: 2},
	} {
		rec.reset(nil)
		token := blob.FirstPageToken
		if tc.token != "" {
			token = []byte(tc.token)
		}
		page, _, err := b.ListPage(ctx, token, 100, &tc.opts)
		require.NoError(t, err)
		require.Len(t, page, tc.keys, "%+v", tc)
		var reads []string
		for _, c := range rec.trace() {
			path, err := filepath.Rel(dir, c.path)
			require.NoError(t, err)
			reads = append(reads, path)
		}
		require.Equal(t, tc.reads, reads, "%+v", tc)
	}

	rec.reset(func(_ int, c call) error {
		if c.path == filepath.Join(dir, "a", "x") {
			return syscall.EIO
		}
		return nil
	})
	_, _, err := b.ListPage(ctx, blob.FirstPageToken, 100, &blob.ListOptions{Prefix: "a/"})
	require.ErrorIs(t, err, syscall.EIO)
	page, _, err := b.ListPage(ctx, blob.FirstPageToken, 100, &blob.ListOptions{Prefix: "b/"})
	require.NoError(t, err)
	require.Len(t, page, 1)
}

// Files that are not objects are not listed: the staging directory, names that no
// key has, links and directories.
func TestListNamesOnlyObjects(t *testing.T) {
	dir := t.TempDir()
	b := openTest(t, dir)
	require.NoError(t, put(b, "real", "x", createOnly()))
	require.NoError(t, put(b, ".filebucket/x", "x", createOnly()))
	for _, name := range []string{"%zz", "%4", "%41", "%2F", "a\\b", "x\x01"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o700))

	var got []string
	for _, o := range listAll(t, b, nil, 10) {
		got = append(got, o.Key)
	}
	require.Equal(t, []string{".filebucket/x", "real"}, got)
	require.Empty(t, listAll(t, b, &blob.ListOptions{Prefix: "em", Delimiter: "/"}, 10))
}

func TestListSizesAreTheObjects(t *testing.T) {
	b := openTest(t, t.TempDir())
	require.NoError(t, put(b, "plain", "12345", createOnly()))
	require.NoError(t, put(b, "typed", "12345", &blob.WriterOptions{ContentType: "text/plain"}))
	for _, o := range listAll(t, b, nil, 10) {
		require.Equal(t, int64(5), o.Size, o.Key)
		require.False(t, o.ModTime.IsZero())
	}
}

func BenchmarkList(b *testing.B) {
	bucket := openTest(b, b.TempDir())
	for i := range 1000 {
		if err := put(bucket, fmt.Sprintf("log/0/node/1/%08d", i), "x", createOnly()); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if n := len(listAll(b, bucket, &blob.ListOptions{Prefix: "log/0/"}, 1000)); n != 1000 {
			b.Fatal(n)
		}
	}
}
