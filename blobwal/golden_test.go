package blobwal

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

// Objects that were written once must be readable for ever: files are added to
// testdata/golden, never changed.
var addGolden = flag.Bool("add-golden", false, "write the golden files that are missing")

// goldenSegments are segments of format version 1, by file.
func goldenSegments() map[string][]*Append {
	headers := to(9, "body one", "", "body three")
	headers.Records[0].Headers = []stream.Header{{Name: "type", Value: "order"}, {Name: "type", Value: "again"}}
	headers.Records[2].Headers = []stream.Header{{Name: "", Value: "no name"}, {Name: "größe", Value: strings.Repeat("v", 200)}}
	created := creating("logs/api/prod", `{"first":true}`, `null`)
	created.JSON = true
	jsonStream := to(3, `{"a":1}`, `[1,2]`, `"x"`)
	jsonStream.JSON = true
	return map[string][]*Append{
		"one-record": {to(1, "hello, stream")},
		"empty-body": {to(1, "")},
		"headers":    {headers},
		"mixed": {
			to(1, "a", "bb", "ccc"), to(1, "dddd"), jsonStream, created, headers,
			{Stream: stream.MakeID(5, 1<<48-1), Records: records("the last stream of log 5")},
		},
	}
}

// goldenPacked are packed segments of format version 1, by file.
func goldenPacked() map[string][]packedRun {
	jsonRun := runOf(3, 1<<40, 1_700_000_000_123, `{"a":1}`, `[1,2]`, `"x"`).asJSON()
	withHeaders := runOf(9, 7, 1_700_000_000_001, "body one", "", "body three")
	withHeaders.run.Headers = [][]stream.Header{{{Name: "type", Value: "order"}}, nil, {{Name: "größe", Value: "v"}}}
	return map[string][]packedRun{
		"packed-one": {runOf(1, 0, 1_700_000_000_000, "hello, stream")},
		"packed": {
			runOf(1, 0, 1_700_000_000_000, "a", "bb"), runOf(1, 2, 1_700_000_000_000, "ccc"), runOf(1, 3, 1_700_000_000_500, "dddd"),
			runOf(1, 100, 1_700_000_001_000, "after a gap"), jsonRun,
			runOf(9, 5, 1_700_000_000_000, "before", "headers"), withHeaders,
			runOf(1<<48-1, stream.MaxOffset-1, -1, "the last record there can be"),
		},
	}
}

func TestGoldenPackedSegments(t *testing.T) {
	for name, runs := range goldenPacked() {
		t.Run(name, func(t *testing.T) {
			packed := pack(t, runs)
			golden := readGolden(t, name, packed.Object)
			assert.Equal(t, golden, packed.Object, "the bytes of version 1 have changed")
			assert.Equal(t, recordsOf(runs), decodeAll(t, golden))
			index, err := ParseObject(golden)
			require.NoError(t, err)
			assert.True(t, index.Packed)
			assert.Equal(t, someone().Segment(goldenSequence), index.ID())
		})
	}
}

const goldenSequence = 4711

func TestGoldenSegments(t *testing.T) {
	for name, appends := range goldenSegments() {
		t.Run(name, func(t *testing.T) {
			object := Encode(someone(), goldenSequence, appends).Object
			golden := readGolden(t, name, object)
			assert.Equal(t, golden, object, "the bytes of version 1 have changed")
			assert.Equal(t, expected(appends), decodeAll(t, golden))
			index, err := ParseObject(golden)
			require.NoError(t, err)
			assert.Equal(t, someone(), index.Identity)
			assert.Equal(t, uint64(goldenSequence), index.Sequence)
			assert.Equal(t, uint64(len(golden)), index.Size)
		})
	}
}

func TestEveryGoldenFileIsTested(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.hex")
	require.NoError(t, err)
	assert.Len(t, files, len(goldenSegments())+len(goldenPacked()))
}

// readGolden reads a golden file: hexadecimal digits, 32 bytes a line.
func readGolden(t testing.TB, name string, object []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".hex")
	if _, err := os.Stat(path); os.IsNotExist(err) && *addGolden {
		require.NoError(t, os.WriteFile(path, hexLines(object), 0o600))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	golden, err := hex.DecodeString(string(bytes.ReplaceAll(text, []byte("\n"), nil)))
	require.NoError(t, err)
	return golden
}

func hexLines(p []byte) []byte {
	var out []byte
	for len(p) > 0 {
		n := min(32, len(p))
		out = append(hex.AppendEncode(out, p[:n]), '\n')
		p = p[n:]
	}
	return out
}
