package stream_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

func TestParseName(t *testing.T) {
	longest := strings.Repeat("n", stream.MaxNameBytes)
	for _, path := range []string{
		"a", "logs/api/prod", "a b", "ü/日本", "...", ".a", "a..b", "a/__ds", "__ds2", "__d", "%2F", "a\nb", "v1/stream/a", longest,
	} {
		name, err := stream.ParseName(path)
		require.NoError(t, err, "%q", path)
		require.Equal(t, stream.Name(path), name, "a name is kept byte for byte")
	}
	for _, c := range []struct{ path, message string }{
		{"", "the stream name is empty"},
		{longest + "n", "the stream name has 1025 bytes; at most 1024 are allowed"},
		{"a\x00b", "contains a NUL byte"},
		{"a\xff", "is not valid UTF-8"},
		{"\xed\xa0\x80", "is not valid UTF-8"}, // half of a surrogate pair
		{"/a", "has an empty segment"},
		{"a/", "has an empty segment"},
		{"a//b", "has an empty segment"},
		{"/", "has an empty segment"},
		{".", `has a segment "."`},
		{"a/./b", `has a segment "."`},
		{"..", `has a segment ".."`},
		{"a/..", `has a segment ".."`},
		{"__ds", "the reserved segment __ds"},
		{"__ds/subscriptions/x", "the reserved segment __ds"},
	} {
		_, err := stream.ParseName(c.path)
		require.ErrorContains(t, err, c.message, "%q", c.path)
		require.Equal(t, stream.CodeBadRequest, stream.CodeOf(err))
	}
}

// FuzzParseName: what is accepted can be written into a path, below any root,
// and found there again.
func FuzzParseName(f *testing.F) {
	for _, seed := range []string{"a", "logs/api/prod", "a//b", "..", "__ds/x", "\xff", "ü", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		name, err := stream.ParseName(path)
		if err != nil {
			require.Equal(t, stream.CodeBadRequest, stream.CodeOf(err))
			require.Empty(t, name)
			return
		}
		require.Equal(t, path, string(name))
		require.True(t, utf8.ValidString(path))
		require.LessOrEqual(t, len(path), stream.MaxNameBytes)
		require.NotContains(t, "/"+path+"/", "//")
		require.NotContains(t, "/"+path+"/", "/./")
		require.NotContains(t, "/"+path+"/", "/../")
		require.NotContains(t, path, "\x00")
		require.False(t, strings.HasPrefix(path+"/", "__ds/"))
	})
}
