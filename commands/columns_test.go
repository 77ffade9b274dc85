package commands_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// TestColumnsThatDoNotFit: a commit is refused whole when its columns
// contradict each other. Each case breaks one thing of a commit that is fine.
func TestColumnsThatDoNotFit(t *testing.T) {
	fine := func() *commands.CommitSegment {
		return commands.NewCommitSegment(1, 100, []commands.Append{
			{ID: 7, Records: 2, Bytes: 60, HasProducer: true, Producer: stream.Producer{ID: "p", Epoch: 1, Seq: 1}, HasStreamSeq: true, StreamSeq: []byte("ab")},
			{Create: &commands.Create{Name: "a", Fork: &commands.Fork{Parent: 7}}, Records: 1, Bytes: 40, HasMatch: true, Match: 0},
		}, nil)
	}
	payload := one(fine())
	_, err := commands.DecodePayload(payload.Encode())
	require.NoError(t, err)

	for _, c := range []struct {
		what  string
		spoil func(*commands.CommitSegment)
	}{
		{"more appends than flags", func(c *commands.CommitSegment) { c.Count++ }},
		{"fewer appends than flags", func(c *commands.CommitSegment) { c.Count-- }},
		{"no appends but columns", func(c *commands.CommitSegment) { c.Count, c.Flags = 0, nil }},
		{"an unknown flag", func(c *commands.CommitSegment) { c.Flags[0] |= 0x20 }},
		{"an id missing", func(c *commands.CommitSegment) { c.IDs = nil }},
		{"an id too many", func(c *commands.CommitSegment) { c.IDs = append(c.IDs, 1) }},
		{"an id that does not end", func(c *commands.CommitSegment) { c.IDs = []byte{0x80} }},
		{"an id beyond 64 bits", func(c *commands.CommitSegment) {
			c.IDs = []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}
		}},
		{"no records", func(c *commands.CommitSegment) { c.Records[0] = 0 }},
		{"a record count missing", func(c *commands.CommitSegment) { c.Records = c.Records[:1] }},
		{"a record count too many", func(c *commands.CommitSegment) { c.Records = append(c.Records, 1) }},
		{"more records than a segment holds", func(c *commands.CommitSegment) { c.Records = []byte{0xff, 0xff, 0xff, 0xff, 0x07, 1} }},
		{"more records than an ordinal holds", func(c *commands.CommitSegment) { c.Records = []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1} }},
		{"a record count beyond 32 bits", func(c *commands.CommitSegment) { c.Records = []byte{0x80, 0x80, 0x80, 0x80, 0x10, 1} }},
		{"a length missing", func(c *commands.CommitSegment) { c.Bytes = c.Bytes[:1] }},
		{"a length too many", func(c *commands.CommitSegment) { c.Bytes = append(c.Bytes, 1) }},
		{"more bytes than the segment", func(c *commands.CommitSegment) { c.Size = 99 }},
		{"lengths whose sum wraps", func(c *commands.CommitSegment) {
			half := []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}
			c.Size, c.Bytes = 1<<63, append(half, half...)
		}},
		{"a producer missing", func(c *commands.CommitSegment) { c.Producers = nil }},
		{"a producer too many", func(c *commands.CommitSegment) { c.Producers = append(c.Producers, 0, 1, 2) }},
		{"a producer not in the table", func(c *commands.CommitSegment) { c.Producers[0] = 1 }},
		{"an empty producer table", func(c *commands.CommitSegment) { c.ProducerIDs = nil }},
		{"a match missing", func(c *commands.CommitSegment) { c.Matches = nil }},
		{"a match too many", func(c *commands.CommitSegment) { c.Matches = append(c.Matches, 1) }},
		{"a stream-seq longer than its column", func(c *commands.CommitSegment) { c.StreamSeqs[0] = 9 }},
		{"a stream-seq of 2^64-1 bytes", func(c *commands.CommitSegment) {
			c.StreamSeqs = []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}
		}},
		{"a stream-seq too many", func(c *commands.CommitSegment) { c.StreamSeqs = append(c.StreamSeqs, 0) }},
		{"a create missing", func(c *commands.CommitSegment) { c.Creates = nil }},
		{"a create too many", func(c *commands.CommitSegment) { c.Creates = append(c.Creates, c.Creates[0]) }},
		{"too many given up", func(c *commands.CommitSegment) { c.GivenUp = make([]uint64, commands.MaxGivenUp+1) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			broken := fine()
			c.spoil(broken)
			payload := one(broken)
			_, err := commands.DecodePayload(payload.Encode())
			require.ErrorContains(t, err, "the columns of a command do not fit together")
		})
	}
}

// TestColumnsOfASwapThatDoNotFit: a swap is refused whole when its columns
// contradict each other. Each case breaks one thing of a swap that is fine.
func TestColumnsOfASwapThatDoNotFit(t *testing.T) {
	fine := func() *commands.Swap {
		return commands.NewSwap(3, 9, []commands.Run{
			{ID: 7, First: 40, Ordinal: 1, Bytes: 60, Pieces: []commands.Piece{{Slot: 1, Ordinal: 5, Count: 2}, {Slot: 0, Count: 3}}},
			{ID: 9, First: 1, Ordinal: 6, Bytes: 10, Pieces: []commands.Piece{{Slot: 2, Count: 1, Cut: true}}},
		})
	}
	payload := one(fine())
	_, err := commands.DecodePayload(payload.Encode())
	require.NoError(t, err)

	uvarint := func(v uint64) []byte { return binary.AppendUvarint(nil, v) }
	varint := func(v int64) []byte { return binary.AppendVarint(nil, v) }
	cat := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	for _, c := range []struct {
		what  string
		spoil func(*commands.Swap)
	}{
		{"more runs than columns", func(c *commands.Swap) { c.Count++ }},
		{"fewer runs than columns", func(c *commands.Swap) { c.Count-- }},
		{"no runs but columns", func(c *commands.Swap) { c.Count = 0 }},
		{"more runs than allowed", func(c *commands.Swap) { c.Count = commands.MaxRuns + 1 }},
		{"an id missing", func(c *commands.Swap) { c.IDs = c.IDs[:1] }},
		{"an id too many", func(c *commands.Swap) { c.IDs = append(c.IDs, 1) }},
		{"an id that does not end", func(c *commands.Swap) { c.IDs[1] = 0x80 }},
		{"an offset missing", func(c *commands.Swap) { c.Firsts = c.Firsts[:1] }},
		{"an offset too many", func(c *commands.Swap) { c.Firsts = append(c.Firsts, 1) }},
		{"an offset beyond the last", func(c *commands.Swap) { c.Firsts = cat(uvarint(uint64(stream.MaxOffset)+1), uvarint(1)) }},
		{"an ordinal missing", func(c *commands.Swap) { c.Ordinals = c.Ordinals[:1] }},
		{"an ordinal too many", func(c *commands.Swap) { c.Ordinals = append(c.Ordinals, 1) }},
		{"an ordinal below zero", func(c *commands.Swap) { c.Ordinals[0] = 1 }},
		{"an ordinal beyond 32 bits", func(c *commands.Swap) { c.Ordinals = cat(varint(1<<32), varint(0)) }},
		{"an ordinal beyond 64 bits", func(c *commands.Swap) { c.Ordinals = cat(varint(1), varint(math.MinInt64)) }},
		{"a last ordinal beyond a segment", func(c *commands.Swap) {
			c.Ordinals = cat(varint(commands.MaxSegmentRecords-4), varint(-commands.MaxSegmentRecords))
		}},
		{"a length missing", func(c *commands.Swap) { c.Bytes = c.Bytes[:1] }},
		{"a length too many", func(c *commands.Swap) { c.Bytes = append(c.Bytes, 1) }},
		{"a length beyond 32 bits", func(c *commands.Swap) { c.Bytes = cat(uvarint(1<<32), uvarint(1)) }},
		{"a run of no pieces", func(c *commands.Swap) { c.Lengths = []byte{3, 0} }},
		{"a number of pieces missing", func(c *commands.Swap) { c.Lengths = c.Lengths[:1] }},
		{"a number of pieces too many", func(c *commands.Swap) { c.Lengths = append(c.Lengths, 1) }},
		{"more pieces than there are", func(c *commands.Swap) { c.Lengths[1]++ }},
		{"fewer pieces than there are", func(c *commands.Swap) { c.Lengths[0]-- }},
		{"2^64-1 pieces", func(c *commands.Swap) { c.Lengths = cat(uvarint(math.MaxUint64), uvarint(1)) }},
		{"a slot missing", func(c *commands.Swap) { c.Slots = c.Slots[:2] }},
		{"a slot too many", func(c *commands.Swap) { c.Slots = append(c.Slots, 1) }},
		{"a slot below zero", func(c *commands.Swap) { c.Slots[0] = 1 }},
		{"a slot beyond 32 bits", func(c *commands.Swap) { c.Slots = cat(varint(1<<32), varint(0), varint(0)) }},
		{"a first record missing", func(c *commands.Swap) { c.Froms = c.Froms[:2] }},
		{"a first record too many", func(c *commands.Swap) { c.Froms = append(c.Froms, 1) }},
		{"a first record beyond 32 bits", func(c *commands.Swap) { c.Froms = cat(uvarint(1<<32), uvarint(0), uvarint(0)) }},
		{"a count missing", func(c *commands.Swap) { c.Counts = c.Counts[:2] }},
		{"a count too many", func(c *commands.Swap) { c.Counts = append(c.Counts, 2) }},
		{"a piece of no records", func(c *commands.Swap) { c.Counts[0] = 0 }},
		{"a cut piece of no records", func(c *commands.Swap) { c.Counts[0] = 1 }},
		{"a cut piece of two records", func(c *commands.Swap) { c.Counts[0] = 5 }},
		{"a count beyond 32 bits", func(c *commands.Swap) { c.Counts = cat(uvarint(1<<34), uvarint(2), uvarint(2)) }},
		{"counts beyond a segment", func(c *commands.Swap) {
			c.Counts = cat(uvarint(2*commands.MaxSegmentRecords), uvarint(2), uvarint(2))
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			broken := fine()
			c.spoil(broken)
			payload := one(broken)
			_, err := commands.DecodePayload(payload.Encode())
			require.ErrorContains(t, err, "the columns of a command do not fit together")
		})
	}
}

// TestRunsOfOneSwap: a swap holds up to MaxRuns runs and MaxPieces pieces, and
// not one more.
func TestRunsOfOneSwap(t *testing.T) {
	encode := func(runs, pieces int) []byte {
		list := make([]commands.Run, runs)
		for i := range list {
			list[i] = commands.Run{ID: stream.ID(i + 1), First: 1000, Ordinal: uint32(3 * i), Bytes: 200}
			for p := range pieces {
				list[i].Pieces = append(list[i].Pieces, commands.Piece{Slot: uint32(p), Ordinal: uint32(i), Count: 1})
			}
		}
		payload := one(commands.NewSwap(1, 1, list))
		return payload.Encode()
	}
	full := encode(commands.MaxRuns, 1)
	_, err := commands.DecodePayload(full)
	require.NoError(t, err)
	require.Less(t, len(full), 12*commands.MaxRuns, "a run of one piece costs less than twelve bytes")
	_, err = commands.DecodePayload(encode(commands.MaxRuns, commands.MaxPieces/commands.MaxRuns))
	require.NoError(t, err)
	_, err = commands.DecodePayload(encode(1, commands.MaxPieces))
	require.NoError(t, err)

	for _, over := range [][]byte{
		encode(commands.MaxRuns+1, 1), encode(1, commands.MaxPieces+1), encode(commands.MaxRuns, commands.MaxPieces/commands.MaxRuns+1),
	} {
		_, err = commands.DecodePayload(over)
		require.ErrorContains(t, err, "the columns of a command do not fit together")
	}
}

// TestAppendsOfOneCommit: a commit holds up to MaxAppends appends and not one
// more.
func TestAppendsOfOneCommit(t *testing.T) {
	appends := make([]commands.Append, commands.MaxAppends)
	for i := range appends {
		appends[i] = commands.Append{ID: stream.ID(i + 1), Records: 1, Bytes: 1}
	}
	full := one(commands.NewCommitSegment(1, 1<<20, appends, nil))
	encoded := full.Encode()
	_, err := commands.DecodePayload(encoded)
	require.NoError(t, err)
	require.Less(t, len(encoded), 10*len(appends), "an append costs less than ten bytes")

	for i := range appends {
		appends[i].Records, appends[i].Bytes = 100, 100<<10
	}
	batches := one(commands.NewCommitSegment(1, 100<<10*commands.MaxAppends, appends, nil))
	require.Less(t, len(batches.Encode()), 10*len(appends), "nor does one of many records cost more")

	over := one(commands.NewCommitSegment(1, 1<<20, append(appends, appends[0]), nil))
	_, err = commands.DecodePayload(over.Encode())
	require.Error(t, err)
}

// TestRecordsOfOneCommit: a segment holds up to MaxSegmentRecords records and
// not one more, in one append or in several.
func TestRecordsOfOneCommit(t *testing.T) {
	for _, c := range []struct {
		records []uint32
		fine    bool
	}{
		{[]uint32{commands.MaxSegmentRecords}, true},
		{[]uint32{commands.MaxSegmentRecords - 1, 1}, true},
		{[]uint32{commands.MaxSegmentRecords + 1}, false},
		{[]uint32{commands.MaxSegmentRecords, 1}, false},
		{[]uint32{1 << 30, 1 << 30}, false},
		{[]uint32{1<<32 - 1, 1<<32 - 1}, false},
	} {
		var appends []commands.Append
		for _, records := range c.records {
			appends = append(appends, commands.Append{ID: 7, Records: records})
		}
		payload := one(commands.NewCommitSegment(1, 100, appends, nil))
		_, err := commands.DecodePayload(payload.Encode())
		require.Equal(t, c.fine, err == nil, "%d: %v", c.records, err)
	}
}

// TestColumnsAliasTheRow: decoding copies no column, and walking them
// allocates nothing.
func TestColumnsAliasTheRow(t *testing.T) {
	payload := one(commands.NewCommitSegment(1, 100, []commands.Append{{ID: 7, Records: 2, Bytes: 60}}, nil))
	data := payload.Encode()
	decoded, err := commands.DecodePayload(data)
	require.NoError(t, err)
	c := decoded.Proposals[0].Commands[0].(*commands.CommitSegment)

	within := false
	for i := range data {
		within = within || &data[i] == &c.IDs[0]
	}
	require.True(t, within)
	require.Equal(t, len(c.IDs), cap(c.IDs), "growing a column must not write into its neighbour")

	require.Zero(t, testing.AllocsPerRun(100, func() { walk(t, c) }))
}
