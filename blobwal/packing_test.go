package blobwal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

// packedBlock is a block of records of three times, with its line in the index:
// two of time 1000, one of 2000, three of 1000 again, from offset 500 on.
func packedBlock(t *testing.T) (BlockInfo, []byte) {
	t.Helper()
	object := pack(t, []packedRun{
		runOf(1, 500, 1000, "a", "b"), runOf(1, 502, 2000, "c"), runOf(1, 503, 1000, "d", "e", "f"),
	}).Object
	index, err := Verify(object)
	require.NoError(t, err)
	require.Len(t, index.Blocks, 1)
	info := index.Blocks[0]
	return info, object[info.Position:][:info.Length]
}

func TestRunsEndWhereTheTimeChanges(t *testing.T) {
	info, data := packedBlock(t)
	b, err := DecodeBlock(info, data)
	require.NoError(t, err)
	assert.Equal(t, stream.Offset(500), b.Base())
	tests := []struct {
		ordinal uint32
		n       int
		first   stream.Offset
		time    stream.Time
		bodies  string
	}{
		{0, 9, 500, 1000, "ab"},
		{0, 1, 500, 1000, "a"},
		{1, 9, 501, 1000, "b"},
		{2, 9, 502, 2000, "c"},
		{3, 9, 503, 1000, "def"},
		{3, 2, 503, 1000, "de"},
		{4, 1, 504, 1000, "e"},
		{5, 1, 505, 1000, "f"},
	}
	for _, test := range tests {
		run := b.Run(test.ordinal, test.n)
		assert.Equal(t, test.first, run.First)
		assert.Equal(t, test.time, run.Time)
		assert.Equal(t, test.bodies, string(run.Bodies))
		assert.Equal(t, len(test.bodies), run.Len())
	}
}

func TestSpansFindTheirHeaders(t *testing.T) {
	const records = 300
	var runs []packedRun
	for i := range records {
		r := runOf(1, stream.Offset(i), stream.Time(i/3), "x")
		if i%4 > 0 {
			r.run.Headers = [][]stream.Header{{{Name: "n", Value: fmt.Sprint(i)}}}
		}
		runs = append(runs, r)
	}
	block := allBlocks(t, pack(t, runs).Object)[0]
	require.Equal(t, records, block.Len())
	for i := range uint32(records) {
		run := block.Run(i, 2)
		assert.Equal(t, recordsOf(runs)[i].headers, fmt.Sprint(run.HeadersOf(0)))
	}
}

func TestBlocksOfTheWriterKnowNoPlace(t *testing.T) {
	block := allBlocks(t, Encode(someone(), 1, []*Append{to(1, "a", "b", "c")}).Object)[0]
	assert.False(t, block.Packed())
	assert.Zero(t, block.Base())
	assert.Zero(t, block.TimeOf(2))
	run := block.Run(1, 9)
	assert.Zero(t, run.First)
	assert.Zero(t, run.Time)
	assert.Equal(t, 2, run.Len())
}

// TestATableOfTimesMustAddUp changes one field at a time and makes the checksum
// match again.
func TestATableOfTimesMustAddUp(t *testing.T) {
	const (
		base   = blockBytes
		spans  = base + 8
		first  = spans + 4
		second = first + timeBytes
		third  = second + timeBytes
	)
	put32 := func(at int, v uint32) func([]byte) { return func(p []byte) { binary.BigEndian.PutUint32(p[at:], v) } }
	put64 := func(at int, v uint64) func([]byte) { return func(p []byte) { binary.BigEndian.PutUint64(p[at:], v) } }
	for name, spoil := range map[string]func([]byte){
		"a base beyond all offsets":      put64(base, uint64(stream.MaxOffset)+1),
		"an end beyond all offsets":      put64(base, uint64(stream.MaxOffset)-5),
		"a base that wraps":              put64(base, 1<<64-1),
		"no spans":                       put32(spans, 0),
		"a span less":                    put32(spans, 2),
		"a span more":                    put32(spans, 4),
		"more spans than records":        put32(spans, 7),
		"more spans than bytes":          put32(spans, 1<<32-1),
		"a record less":                  put32(third, 2),
		"a record more":                  put32(third, 4),
		"a span of none":                 put32(first, 0),
		"a span of all and more":         put32(first, 1<<32-1),
		"neighbours of the same time":    put64(second+4, 1000),
		"no stream":                      put64(0, 0),
		"a name":                         func(p []byte) { p[15] = 1 },
		"a block that is not packed":     func(p []byte) { p[12] &^= flagPacked },
		"flags that nobody knows":        func(p []byte) { p[12] |= 8 },
		"records that the index has not": put32(8, 5),
	} {
		info, data := packedBlock(t)
		data = bytes.Clone(data)
		spoil(data)
		info.CRC = checksum(data)
		info.Stream = stream.ID(binary.BigEndian.Uint64(data))
		_, err := DecodeBlock(info, data)
		var fault *ObjectError
		require.ErrorAs(t, err, &fault, name)
		assert.Equal(t, FaultFormat, fault.Fault, name)
	}
}

// TestPackedBlocksBelongInPackedSegments: a reader that takes one for the other
// would give records the wrong time.
func TestPackedBlocksBelongInPackedSegments(t *testing.T) {
	info, data := packedBlock(t)
	info.Packed = false
	_, err := DecodeBlock(info, data)
	requireObjectError(t, err, "packed in a segment that is not")

	object := Encode(someone(), 1, []*Append{to(1, "a")}).Object
	index, err := ParseObject(object)
	require.NoError(t, err)
	info = index.Blocks[0]
	info.Packed = true
	_, err = DecodeBlock(info, object[info.Position:][:info.Length])
	requireObjectError(t, err, "not packed in a segment that is")
}

func TestIsPacked(t *testing.T) {
	packed := readGolden(t, "packed-one", nil)
	assert.True(t, IsPacked(packed))
	assert.False(t, IsPacked(readGolden(t, "one-record", nil)))
	assert.False(t, IsPacked(packed[:headerBytes-1]))
	assert.False(t, IsPacked(packed[1:]))
	assert.False(t, IsPacked(nil))
}
