package commands_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// edges draws numbers of every encoded width, the widths' limits above all.
func edges(t *rapid.T, label string) uint64 {
	return rapid.OneOf(
		rapid.SampledFrom([]uint64{0, 1, 23, 24, 255, 256, 65535, 65536, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1<<64 - 1}),
		rapid.Uint64(),
	).Draw(t, label)
}

// drawString draws text, and bytes that are no text.
func drawString(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 20), func(b []byte) string { return string(b) }),
	).Draw(t, label)
}

func drawIDs(t *rapid.T) []stream.ID {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) stream.ID { return stream.ID(edges(t, "id")) }), 0, 40).Draw(t, "ids")
}

func drawConfig(t *rapid.T) stream.Config {
	return stream.Config{
		ContentType: drawString(t, "type"),
		Expiry: stream.Expiry{
			Kind: stream.ExpiryKind(rapid.Uint8().Draw(t, "kind")),
			TTL:  edges(t, "ttl"),
			At:   stream.Time(edges(t, "at")),
		},
		Retention: stream.Retention{Age: edges(t, "age"), Bytes: edges(t, "bytes")},
	}
}

func drawCreate(t *rapid.T) commands.Create {
	c := commands.Create{Name: stream.Name(drawString(t, "name")), Config: drawConfig(t), Closed: rapid.Bool().Draw(t, "closed")}
	if rapid.Bool().Draw(t, "is fork") {
		c.Fork = ptr(drawFork(t))
	}
	return c
}

func drawFork(t *rapid.T) commands.Fork {
	f := commands.Fork{Parent: stream.ID(edges(t, "parent")), Sub: edges(t, "sub"), Cut: rapid.Uint32().Draw(t, "cut")}
	if rapid.Bool().Draw(t, "has offset") {
		f.At = ptr(stream.Offset(edges(t, "fork at")))
	}
	return f
}

func drawProducer(t *rapid.T) stream.Producer {
	return stream.Producer{ID: rapid.SampledFrom([]string{"", "a", "b", "pump", "not UTF-8: \xff"}).Draw(t, "producer"), Epoch: edges(t, "epoch"), Seq: edges(t, "seq")}
}

// drawAppend draws an append of at most 1000 records and 1000 bytes, so that
// the sums of a segment's stay in range.
func drawAppend(t *rapid.T) commands.Append {
	a := commands.Append{
		Records: rapid.Uint32Range(1, 1000).Draw(t, "records"),
		Bytes:   rapid.Uint64Range(0, 1000).Draw(t, "bytes"),
		Close:   rapid.Bool().Draw(t, "close"),
	}
	if rapid.Bool().Draw(t, "creates") {
		create := drawCreate(t)
		a.Create = &create
	} else {
		a.ID = stream.ID(edges(t, "id"))
	}
	if a.HasProducer = rapid.Bool().Draw(t, "has producer"); a.HasProducer {
		a.Producer = drawProducer(t)
	}
	if a.HasMatch = rapid.Bool().Draw(t, "has match"); a.HasMatch {
		a.Match = stream.Offset(edges(t, "match"))
	}
	if a.HasStreamSeq = rapid.Bool().Draw(t, "has stream-seq"); a.HasStreamSeq {
		a.StreamSeq = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "stream-seq")
	}
	return a
}

func drawAppends(t *rapid.T) []commands.Append {
	return rapid.SliceOfN(rapid.Custom(drawAppend), 0, 20).Draw(t, "appends")
}

func drawClose(t *rapid.T) *commands.Close {
	c := &commands.Close{ID: stream.ID(edges(t, "id"))}
	if rapid.Bool().Draw(t, "has producer") {
		c.Producer = ptr(drawProducer(t))
	}
	if rapid.Bool().Draw(t, "has match") {
		c.Match = ptr(stream.Offset(edges(t, "match")))
	}
	if rapid.Bool().Draw(t, "has stream-seq") {
		c.StreamSeq = ptr(drawString(t, "stream-seq"))
	}
	return c
}

func drawRegister(t *rapid.T) *commands.RegisterNode {
	m := &commands.RegisterNode{
		Node:    commands.NodeID(rapid.Uint32().Draw(t, "node")),
		Address: drawString(t, "address"),
		Level:   rapid.Uint32().Draw(t, "level"),
		Release: drawString(t, "release"),
	}
	copy(m.Cluster[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "cluster"))
	copy(m.Incarnation[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "incarnation"))
	copy(m.Previous[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "previous"))
	return m
}

func drawRun(t *rapid.T) commands.Run {
	r := commands.Run{
		ID: stream.ID(edges(t, "id")), First: stream.Offset(rapid.Uint64Range(0, uint64(stream.MaxOffset)).Draw(t, "first")),
		Ordinal: rapid.Uint32Range(0, 1<<29).Draw(t, "ordinal"), Bytes: rapid.Uint32().Draw(t, "bytes"),
	}
	for range rapid.IntRange(1, 4).Draw(t, "pieces") {
		p := commands.Piece{Slot: rapid.Uint32().Draw(t, "slot"), Ordinal: rapid.Uint32().Draw(t, "from"), Count: rapid.Uint32Range(1, 1<<20).Draw(t, "count")}
		if rapid.Bool().Draw(t, "cut") {
			p.Cut, p.Count = true, 1
		}
		r.Pieces = append(r.Pieces, p)
	}
	return r
}

func drawCommand(t *rapid.T) commands.Command {
	switch kind := commands.Kind(rapid.IntRange(1, 16).Draw(t, "command kind")); kind {
	case commands.KindRegisterNode:
		return drawRegister(t)
	case commands.KindCommitSegment:
		givenUp := rapid.SliceOfN(rapid.Uint64(), 0, 5).Draw(t, "given up")
		return commands.NewCommitSegment(edges(t, "sequence"), 1_000_000, drawAppends(t), givenUp)
	case commands.KindCreate:
		return ptr(drawCreate(t))
	case commands.KindClose:
		return drawClose(t)
	case commands.KindTrim:
		return &commands.Trim{ID: stream.ID(edges(t, "id")), To: stream.Offset(edges(t, "to")), Upkeep: rapid.Bool().Draw(t, "upkeep")}
	case commands.KindDelete:
		return &commands.Delete{ID: stream.ID(edges(t, "id"))}
	case commands.KindTouch:
		return &commands.Touch{IDs: drawIDs(t)}
	case commands.KindExpire:
		return &commands.Expire{IDs: drawIDs(t)}
	case commands.KindTick:
		return &commands.Tick{}
	case commands.KindCheckpoint:
		return &commands.Checkpoint{At: commands.Index(edges(t, "at")), Digest: commands.Digest(edges(t, "digest"))}
	case commands.KindActivate:
		return &commands.Activate{Level: rapid.Uint32().Draw(t, "level"), Release: drawString(t, "release")}
	case commands.KindDoom:
		return &commands.Doom{Slots: rapid.SliceOfN(rapid.Uint32(), 0, 5).Draw(t, "slots")}
	case commands.KindCollected:
		return &commands.Collected{Slots: rapid.SliceOfN(rapid.Uint32(), 0, 5).Draw(t, "slots")}
	case commands.KindPack:
		return &commands.Pack{
			Sequence: edges(t, "sequence"), Size: edges(t, "size"), Level: rapid.Uint8().Draw(t, "level"),
			Oldest: stream.Time(rapid.Int64().Draw(t, "oldest")), Newest: stream.Time(rapid.Int64().Draw(t, "newest")),
			First: stream.ID(edges(t, "first")), Last: stream.ID(edges(t, "last")),
			GivenUp: rapid.SliceOfN(rapid.Uint64(), 0, 5).Draw(t, "given up"),
		}
	case commands.KindSwap:
		runs := rapid.SliceOfN(rapid.Custom(drawRun), 0, 10).Draw(t, "runs")
		return commands.NewSwap(rapid.Uint32().Draw(t, "slot"), edges(t, "sequence"), runs)
	case commands.KindDepart:
		return &commands.Depart{Node: commands.NodeID(rapid.Uint32().Draw(t, "node")), Epoch: commands.Epoch(edges(t, "epoch"))}
	default:
		t.Fatalf("no generator for kind %v", kind)
		return nil
	}
}

func drawPayload(t *rapid.T) commands.Payload {
	return commands.Payload{
		Clock: stream.Time(edges(t, "clock")),
		Proposals: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) commands.Proposal {
			return commands.Proposal{
				Origin: commands.Origin{
					Node:  commands.NodeID(rapid.Uint32().Draw(t, "node")),
					Epoch: commands.Epoch(edges(t, "epoch")),
					Seq:   edges(t, "seq"),
				},
				Commands: rapid.SliceOfN(rapid.Custom(drawCommand), 0, 4).Draw(t, "commands"),
			}
		}), 0, 4).Draw(t, "proposals"),
	}
}

// TestRoundTrip: what is written is read back as it was, and written again it
// is the same bytes.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawPayload(t)
		encoded := want.Encode()
		got, err := commands.DecodePayload(encoded)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got, cmpopts.EquateEmpty()))
		require.Equal(t, encoded, got.Encode())
	})
}

// TestColumnsRoundTrip: the columns of a commit hold the appends as given.
func TestColumnsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawAppends(t)
		c := commands.NewCommitSegment(1, 1<<40, want, nil)
		require.Equal(t, int(c.Count), len(want))
		var got []commands.Append
		var a commands.Append
		for it := c.Appends(); it.Next(&a); {
			got = append(got, a)
		}
		require.Empty(t, cmp.Diff(want, got, cmpopts.EquateEmpty()))
	})
}

// TestRunsRoundTrip: the columns of a swap hold the runs as given.
func TestRunsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawRun), 0, 10).Draw(t, "runs")
		c := commands.NewSwap(1, 2, want)
		require.Equal(t, int(c.Count), len(want))
		var got []commands.Run
		var r commands.Run
		for it := c.Runs(); it.Next(&r); {
			r.Pieces = slices.Clone(r.Pieces)
			got = append(got, r)
		}
		require.Empty(t, cmp.Diff(want, got, cmpopts.EquateEmpty()))
	})
}

// FuzzDecodePayload: any input is refused with an error or is the one spelling
// of a payload, whose columns can be walked to their end.
func FuzzDecodePayload(f *testing.F) {
	for _, data := range allGolden(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := commands.DecodePayload(data)
		if err != nil {
			return
		}
		require.Equal(t, data, p.Encode())
		for _, proposal := range p.Proposals {
			for _, c := range proposal.Commands {
				switch c := c.(type) {
				case *commands.CommitSegment:
					walk(t, c)
				case *commands.Swap:
					walkRuns(t, c)
				}
			}
		}
	})
}

func walk(t *testing.T, c *commands.CommitSegment) {
	var a commands.Append
	var n uint32
	for it := c.Appends(); it.Next(&a); n++ {
		require.NotZero(t, a.Records)
	}
	require.Equal(t, c.Count, n, "a decoded commit never ends early")
}

func walkRuns(t *testing.T, c *commands.Swap) {
	var r commands.Run
	var n uint32
	for it := c.Runs(); it.Next(&r); n++ {
		require.NotZero(t, r.Records())
		require.LessOrEqual(t, uint64(r.Ordinal)+r.Records(), uint64(commands.MaxSegmentRecords))
		require.LessOrEqual(t, r.First, stream.MaxOffset)
	}
	require.Equal(t, c.Count, n, "a decoded swap never ends early")
}
