package commands_test

import (
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
