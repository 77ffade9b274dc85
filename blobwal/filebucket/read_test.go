package filebucket

import (
	"bytes"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// The file of an object with default attributes is the object, byte by byte; the
// bytes of a trailer are fixed for ever.
func TestFileFormat(t *testing.T) {
	dir := t.TempDir()
	b := openTest(t, dir)
	require.NoError(t, put(b, "plain", "bytes", createOnly()))
	require.NoError(t, put(b, "typed", "bytes", &blob.WriterOptions{
		ContentType: "text/plain", Metadata: map[string]string{"a": "1"},
	}))
	require.NoError(t, put(b, "looks like a trailer", "bytes"+magic, createOnly()))

	require.Equal(t, "bytes", readFile(t, dir, "plain"))
	require.Equal(t, `bytes{"content_type":"text/plain","metadata":{"a":"1"}}`+
		unhex(t, "320000008800e457")+magic, readFile(t, dir, "typed"))
	require.Equal(t, "bytes"+magic+"{}"+unhex(t, "020000003195e349")+magic, readFile(t, dir, "looks like a trailer"))
	require.Equal(t, "8966696c656275636b65742d310d0a1a", hex.EncodeToString([]byte(magic)))
}

// Content that ends like a trailer comes back as it was, however it was written.
func TestContentThatEndsInMagic(t *testing.T) {
	b := openTest(t, t.TempDir())
	trailer, err := (&attributes{ContentType: "text/forged"}).encode()
	require.NoError(t, err)
	for _, content := range []string{magic, string(trailer), "x" + string(trailer), magic[:15], magic + magic, magic + "x"} {
		for _, chunk := range []int{1, 3, 16, 1000} {
			w, err := b.NewWriter(ctx, "k", &blob.WriterOptions{ContentType: defaultContentType})
			require.NoError(t, err)
			for rest := []byte(content); len(rest) > 0; {
				n, err := w.Write(rest[:min(chunk, len(rest))])
				require.NoError(t, err)
				rest = rest[n:]
			}
			require.NoError(t, w.Close())
			got, err := b.ReadAll(ctx, "k")
			require.NoError(t, err)
			require.Equal(t, content, string(got), "in chunks of %d", chunk)
			attrs, err := b.Attributes(ctx, "k")
			require.NoError(t, err)
			require.Equal(t, defaultContentType, attrs.ContentType)
			require.Equal(t, int64(len(content)), attrs.Size)
		}
	}
}

// Any flipped bit in a trailer's length, checksum or attributes is an error that
// names the object; other objects, and the list, go on.
func TestDamagedTrailer(t *testing.T) {
	dir := t.TempDir()
	b := openTest(t, dir)
	require.NoError(t, put(b, "good", "bytes", createOnly()))
	require.NoError(t, put(b, "k", "bytes", &blob.WriterOptions{ContentType: "text/plain"}))
	whole := readFile(t, dir, "k")
	for i := len("bytes"); i < len(whole)-len(magic); i++ {
		for bit := range 8 {
			damaged := []byte(whole)
			damaged[i] ^= 1 << bit
			require.NoError(t, os.WriteFile(filepath.Join(dir, "k"), damaged, 0o600))
			_, err := b.ReadAll(ctx, "k")
			require.Equal(t, gcerrors.Internal, gcerrors.Code(err), "byte %d bit %d: %v", i, bit, err)
			require.ErrorContains(t, err, filepath.Join(dir, "k"))
		}
	}
	require.Len(t, listAll(t, b, nil, 10), 2)
	_, err := b.ReadAll(ctx, "good")
	require.NoError(t, err)
	require.NoError(t, b.Delete(ctx, "k"))
}

func FuzzTrailer(f *testing.F) {
	whole, err := (&attributes{ContentType: "text/plain"}).encode()
	require.NoError(f, err)
	f.Add(whole)
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, file []byte) {
		attrs, size, err := readTrailer(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			require.ErrorIs(t, err, errDamaged)
			return
		}
		if size < 0 || size > int64(len(file)) {
			t.Fatalf("%d of %d bytes (%+v)", size, len(file), attrs)
		}
	})
}

func TestAttributesTooLarge(t *testing.T) {
	dir := t.TempDir()
	b := openTest(t, dir)
	err := put(b, "k", "x", &blob.WriterOptions{
		ContentType: "text/plain", Metadata: map[string]string{"m": strings.Repeat("v", maxAttributes)},
	})
	require.Equal(t, gcerrors.InvalidArgument, gcerrors.Code(err))
	requireNoTemporaries(t, dir)
}

func TestRanges(t *testing.T) {
	const content = "0123456789"
	b := openTest(t, t.TempDir())
	require.NoError(t, put(b, "plain", content, createOnly()))
	require.NoError(t, put(b, "typed", content, &blob.WriterOptions{ContentType: "text/plain"}))
	for _, key := range []string{"plain", "typed"} {
		for _, tc := range []struct {
			offset, length int64
			want           string
		}{
			{0, -1, content},
			{3, -1, "3456789"},
			{3, 2, "34"},
			{8, 100, "89"},
			{0, 0, ""},
			{10, -1, ""},
			{10, 5, ""},
			{11, 5, ""},
			{1 << 40, -1, ""},
			{1, 1<<63 - 1, "123456789"},
		} {
			r, err := b.NewRangeReader(ctx, key, tc.offset, tc.length, nil)
			require.NoError(t, err)
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			require.NoError(t, r.Close())
			require.Equal(t, tc.want, string(got), "%s %d+%d", key, tc.offset, tc.length)
			require.Equal(t, int64(len(content)), r.Size())
		}
	}
}

// What is not a regular file is not an object, and a pipe does not hold reads up.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	b := openTest(t, dir)
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	_, err := b.ReadAll(ctx, "pipe")
	require.Equal(t, gcerrors.NotFound, gcerrors.Code(err))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "copied"), []byte("by hand"), 0o600))
	got, err := b.ReadAll(ctx, "copied")
	require.NoError(t, err)
	require.Equal(t, "by hand", string(got))
}

// A reader that breaks off in the middle leaves no object, though the portable type
// closes the writer.
func TestBrokenUpload(t *testing.T) {
	dir := t.TempDir()
	b := openTest(t, dir)
	half := io.MultiReader(strings.NewReader("half of it"), brokenReader{})
	require.ErrorIs(t, b.Upload(ctx, "k", half, createOnly()), io.ErrUnexpectedEOF)
	exists, err := b.Exists(ctx, "k")
	require.NoError(t, err)
	require.False(t, exists)
	requireNoTemporaries(t, dir)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(data)
}

func unhex(t *testing.T, s string) string {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return string(b)
}
