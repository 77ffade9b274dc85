package statemachine

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// withChecksums walks the chunks of what may be a snapshot and makes their
// checksums right.
func withChecksums(data []byte) []byte {
	data = bytes.Clone(data)
	rest := data[min(len(snapshotMagic), len(data)):]
	for len(rest) >= chunkHead+chunkTail {
		length := uint64(binary.LittleEndian.Uint32(rest[1:]))
		end := chunkHead + length
		if end+chunkTail > uint64(len(rest)) {
			break
		}
		binary.LittleEndian.PutUint32(rest[end:], crc32.Checksum(rest[:end], castagnoli))
		rest = rest[end+chunkTail:]
	}
	return data
}

// FuzzApply applies decoded payloads, whatever they say, to a state that has
// some of everything. Apply never panics, the digest stays in step, and what
// comes out can be encoded and restored.
func FuzzApply(f *testing.F) {
	for seed := range 8 {
		for _, e := range history.Example(seed) {
			f.Add(e.Encode(), int64(e.DatabaseTime))
		}
	}
	snapshot := smallSnapshot(f)
	last := restore(f, snapshot).nodes.list[0].LastSeq
	for _, cmds := range [][]commands.Command{
		{
			&commands.Pack{Sequence: 50, Level: 2, First: 1, Last: 9},
			commands.NewSwap(emptySlot, 50, []commands.Run{
				{ID: 9, Ordinal: 7, Bytes: 80, Pieces: []commands.Piece{{Slot: packedSlot, Ordinal: 5, Count: 3}, {Slot: 5, Count: 4}}},
				{ID: 5, First: 1, Ordinal: 1, Bytes: 9, Pieces: []commands.Piece{{Slot: 0, Ordinal: 1, Count: 2}, {Slot: 1, Count: 1, Cut: true}}},
			}),
			&commands.Depart{Node: 2, Epoch: 1}, &commands.Depart{Node: 1, Epoch: 2},
			&commands.Doom{Slots: []uint32{0, 5, packedSlot}}, &commands.Collected{Slots: []uint32{doomedSlot, 5, packedSlot}},
		},
		{&commands.Trim{ID: 9, To: 4, Upkeep: true}, commands.NewSwap(packedSlot, 7, []commands.Run{
			{ID: 9, First: 3, Ordinal: 8, Bytes: 9, Pieces: []commands.Piece{{Slot: 5, Count: 4}}},
		})},
		{&commands.Depart{Node: 1, Epoch: 1}, &commands.Tick{}},
	} {
		e := &commands.Entry{Payload: commands.Payload{Proposals: []commands.Proposal{{
			Origin: commands.Origin{Node: 1, Epoch: 1, Seq: last + 1}, Commands: cmds,
		}}}}
		f.Add(e.Encode(), int64(1<<20))
	}
	f.Fuzz(func(t *testing.T, data []byte, now int64) {
		payload, err := commands.DecodePayload(data)
		if err != nil {
			return
		}
		s := restore(t, snapshot)
		for range 2 { // the second time meets what the first one made
			s.Apply(&commands.Entry{Index: s.Index() + 1, DatabaseTime: stream.Time(now), Payload: payload})
			if s.items != s.recompute() {
				t.Fatal("the digest kept is not the digest of the state")
			}
		}
		if got := restore(t, encode(t, s.BeginSnapshot())); got.dump() != s.dump() {
			t.Fatalf("restored\n%s\nof\n%s", got.dump(), s.dump())
		}
	})
}

// TestHandMadeCommits applies commits that no decoder would let through.
func TestHandMadeCommits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, l := populate(t, 2)
		column := rapid.SliceOfN(rapid.Byte(), 0, 12)
		m := &commands.CommitSegment{
			Sequence: 100, Count: rapid.Uint32Range(0, 6).Draw(t, "count"),
			IDs: column.Draw(t, "ids"), Records: column.Draw(t, "records"), Bytes: column.Draw(t, "bytes"),
			Flags: column.Draw(t, "flags"), Producers: column.Draw(t, "producers"), Matches: column.Draw(t, "matches"),
			StreamSeqs: column.Draw(t, "stream-seqs"), ProducerIDs: []string{"p", ""},
			Creates: []commands.Create{{Name: "c"}, {}},
		}
		s.Apply(l.entry(m, nil))
		if s.items != s.recompute() {
			t.Fatal("the digest kept is not the digest of the state")
		}
		restore(t, encode(t, s.BeginSnapshot()))
	})
}
