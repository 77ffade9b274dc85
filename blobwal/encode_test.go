package blobwal

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/stream"
)

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGroup()
		for range rapid.IntRange(1, 12).Draw(t, "appends") {
			a := drawAppend(t)
			g.add(a, a.bytes(), g.opened)
		}
		appends := g.ordered()
		encoded := Encode(someone(), 3, appends)

		require.Equal(t, expected(appends), decodeAll(t, encoded.Object))
		checkBytes(t, g, encoded)
		checkBlocks(t, encoded.Object)
	})
}

func drawAppend(t *rapid.T) *Append {
	a := &Append{Stream: stream.ID(rapid.IntRange(0, 3).Draw(t, "stream")), JSON: rapid.Bool().Draw(t, "json")}
	if a.Stream == 0 {
		a.Name = stream.Name(rapid.StringMatching(`[a-c]{1,2}`).Draw(t, "name"))
	}
	size := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 70_000))
	for range rapid.IntRange(1, 5).Draw(t, "records") {
		r := stream.Record{Body: make([]byte, size.Draw(t, "size"))}
		for range rapid.IntRange(0, 2).Draw(t, "headers") {
			r.Headers = append(r.Headers, stream.Header{Name: rapid.String().Draw(t, "header"), Value: rapid.String().Draw(t, "value")})
		}
		a.Records = append(a.Records, r)
	}
	return a
}

// checkBytes checks that what appends are said to take adds up to the blocks,
// and that the bound used for the backlog is one.
func checkBytes(t require.TestingT, g *group, encoded *Encoded) {
	index, err := ParseObject(encoded.Object)
	require.NoError(t, err)
	var blocks, appends uint64
	for _, info := range index.Blocks {
		blocks += uint64(info.Length)
	}
	for _, n := range encoded.Bytes {
		appends += n
	}
	require.Equal(t, blocks, appends)
	require.LessOrEqual(t, len(encoded.Object), g.bytes+minObjectBytes)
	require.Equal(t, len(encoded.Object), cap(encoded.Object), "the object is allocated at its size")
}

func checkBlocks(t require.TestingT, object []byte) {
	index, err := ParseObject(object)
	require.NoError(t, err)
	for ordinal := range index.Records {
		info, ok := index.Find(ordinal)
		require.True(t, ok)
		require.True(t, ordinal >= info.First && ordinal < info.First+info.Count)
	}
	_, ok := index.Find(index.Records)
	require.False(t, ok)
	for _, info := range index.Blocks {
		require.True(t, info.Length <= MaxBlockBytes || info.Count == 1, "block %+v", info)
	}
}

func TestBlocksAreCutBetweenRecords(t *testing.T) {
	tests := []struct {
		name    string
		appends []*Append
		counts  []uint32
	}{
		{"one block", []*Append{to(1, "a", "b"), to(1, "c")}, []uint32{3}},
		{"streams apart", []*Append{to(1, "a"), to(2, "b"), to(3, "c")}, []uint32{1, 1, 1}},
		{"exactly full", []*Append{to(1, fill64(MaxBlockBytes-blockBytes-endBytes))}, []uint32{1}},
		{"exactly full with two", []*Append{to(1, "a", fill64(MaxBlockBytes-blockBytes-2*endBytes-1))}, []uint32{2}},
		{"one byte more", []*Append{to(1, "a", fill64(MaxBlockBytes-blockBytes-2*endBytes))}, []uint32{1, 1}},
		{"a second does not fit", []*Append{to(1, fill64(MaxBlockBytes-blockBytes-endBytes)), to(1, "")}, []uint32{1, 1}},
		{"a large record alone", []*Append{to(1, "a", fill64(3*MaxBlockBytes), "b")}, []uint32{1, 1, 1}},
		{"a batch goes on in the next block", []*Append{to(1, fill64(40_000), fill64(20_000), fill64(20_000), fill64(20_000))}, []uint32{2, 2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			index, err := Verify(Encode(someone(), 1, test.appends).Object)
			require.NoError(t, err)
			var counts []uint32
			for _, info := range index.Blocks {
				counts = append(counts, info.Count)
			}
			assert.Equal(t, test.counts, counts)
		})
	}
}

func TestJSONBodiesMakeAnArray(t *testing.T) {
	a := &Append{Stream: 5, JSON: true, Records: records(`{"a":1}`, `2`, `"three"`)}
	object := Encode(someone(), 1, []*Append{a}).Object
	index, err := ParseObject(object)
	require.NoError(t, err)
	block, err := DecodeBlock(index.Blocks[0], object[index.Blocks[0].Position:][:index.Blocks[0].Length])
	require.NoError(t, err)
	assert.Equal(t, `{"a":1},2,"three"`, string(block.Run(0, 3).Bodies))
	assert.Equal(t, `2,"three"`, string(block.Run(1, 9).Bodies))
	run := block.Run(1, 1)
	assert.Equal(t, `2`, string(run.Body(0)))
}

func TestBytesOfAppends(t *testing.T) {
	with := &Append{Stream: 1, Records: []stream.Record{{Body: []byte("b"), Headers: []stream.Header{{Name: "k", Value: "vw"}}}}}
	tests := []struct {
		name    string
		appends []*Append
		bytes   []uint64
	}{
		{"overhead goes to the first", []*Append{to(1, "a"), to(1, "bc", "d")}, []uint64{16 + 4 + 1, 4 + 2 + 4 + 1}},
		{"a name is overhead", []*Append{creating("abc", "x")}, []uint64{16 + 3 + 4 + 1}},
		{"headers", []*Append{to(1, "a"), with}, []uint64{16 + 4 + 4 + 1 + 1, 4 + 1 + 1 + 1 + 1 + 1 + 2}},
		{"separators go to the record after", []*Append{
			{Stream: 1, JSON: true, Records: records("1")}, {Stream: 1, JSON: true, Records: records("2")},
		}, []uint64{16 + 4 + 1, 4 + 1 + 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.bytes, Encode(someone(), 1, test.appends).Bytes)
		})
	}
}

func TestGroupOrder(t *testing.T) {
	g := newGroup()
	for _, a := range []*Append{to(2, "1"), to(1, "2"), creating("n", "3"), to(2, "4"), creating("n", "5"), to(1, "6")} {
		g.add(a, a.bytes(), g.opened)
	}
	var order []string
	for _, a := range g.ordered() {
		order = append(order, fmt.Sprintf("%d%s:%s", a.Stream, a.Name, a.Records[0].Body))
	}
	assert.Equal(t, []string{"2:1", "2:4", "1:2", "1:6", "0n:3", "0n:5"}, order)
}
