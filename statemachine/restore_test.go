package statemachine

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/picomq/picomq/stream"
)

// TestRestoreChecksRules damages a state in ways that checksums cannot show.
func TestRestoreChecksRules(t *testing.T) {
	tests := []struct {
		name   string
		damage func(*State)
		want   string
	}{
		{"a digest that is wrong", func(s *State) { s.items++ }, "digest"},
		{"a tail past the extents", func(s *State) { damaged(s, 1).row().tail++ }, "extents of stream 1 end"},
		{"an extent of nothing", func(s *State) { damaged(s, 1).extents().rows[0].packed = 0 }, "extents of stream 1 end"},
		{"an extent nowhere", func(s *State) { damaged(s, 1).extents().rows[0].Segment = 99 }, "segment 99"},
		{"references that do not add up", func(s *State) { s.segments.at(0).rows[0].Referenced++ }, "segment 0 says"},
		{"a segment of nobody", func(s *State) { s.segments.at(0).rows[0].Epoch = 0 }, "slot 0 breaks"},
		{"a segment of the future", func(s *State) { s.segments.at(0).rows[0].Time = s.logTime + 1 }, "slot 0 breaks"},
		{"a segment of appends that was packed", func(s *State) { s.segments.at(0).rows[0].Oldest-- }, "slot 0 breaks"},
		{"a segment of appends with later records", func(s *State) { s.segments.at(0).rows[0].Newest++ }, "slot 0 breaks"},
		{"a packed segment older than old", func(s *State) { s.segments.at(0).rows[packedSlot].Oldest = 1 << 40 }, "slot 6 breaks"},
		{"a packed segment newer than known", func(s *State) { s.segments.at(0).rows[packedSlot].Newest = 1 << 40 }, "slot 6 breaks"},
		{"a segment of appends for some streams", func(s *State) { s.segments.at(0).rows[0].Last = 1 }, "slot 0 breaks"},
		{"a packed segment for no streams", func(s *State) { s.segments.at(0).rows[packedSlot].Last = 0 }, "slot 6 breaks"},
		{"a doomed segment with extents", func(s *State) { s.segments.at(0).rows[0].Doomed = 1 }, "slot 0 breaks"},
		{"a segment doomed in the future", func(s *State) { s.segments.at(0).rows[doomedSlot].Doomed = s.activeTime + 1 }, "slot 3 breaks"},
		{"an extent in an empty slot", func(s *State) { damaged(s, 1).extents().rows[0].Segment = emptySlot }, "segment 4, records"},
		{"an extent in a doomed segment", func(s *State) { damaged(s, 1).extents().rows[0].Segment = doomedSlot }, "segment 0 says"},
		{"something in an empty slot", func(s *State) { s.segments.at(0).rows[emptySlot].Size = 1 }, "slot 4 breaks"},
		{"slots beyond the last", func(s *State) { s.counts.Slots++ }, "the last slot, 7, is empty"},
		{"fewer slots than there are", func(s *State) { s.counts.Slots-- }, ""},
		{"a retention that keeps all", func(s *State) { damaged(s, 9).side().retention = stream.Retention{} }, "stream 9 breaks"},
		{"a retention out of range", func(s *State) { damaged(s, 9).side().retention.Age = stream.MaxTTL + 1 }, "at most"},
		{"a retention in bytes out of range", func(s *State) { damaged(s, 9).side().retention.Bytes = stream.MaxRetentionBytes + 1 }, "at most"},
		{"a deleted stream with a retention", func(s *State) {
			damaged(s, 4).row().flags |= flagRetained
			damaged(s, 4).side().retention.Age = 1
		}, "stream 4 breaks"},
		{"a name twice", func(s *State) { damaged(s, 1).page.names[2] = "a" }, "one name"},
		{"a use in the future", func(s *State) { damaged(s, 2).row().touched = 1 << 60 }, "stream 2 breaks"},
		{"a limit out of range", func(s *State) { damaged(s, 2).row().limit = -1 }, "stream 2 breaks"},
		{"a closer of an open stream", func(s *State) { damaged(s, 2).row().flags = flagLive }, "stream 2 breaks"},
		{"a producer that did nothing", func(s *State) { damaged(s, 2).side().producers[0].known = 0 }, "stream 2 breaks"},
		{"a producer of the future", func(s *State) { damaged(s, 2).side().producers[0].first = 9 }, "stream 2 breaks"},
		{"a closer out of range", func(s *State) { damaged(s, 2).side().closer = 2 }, "at most 1"},
		{"a stream past the last", func(s *State) { s.lastDense = 2 }, ""},
		{"a node of the future", func(s *State) { s.nodes.list[0].Epoch = 1 << 40 }, "epoch"},
		{"sequences out of order", func(s *State) { s.nodes.list[0].used.spans = []span{{5, 4}} }, "not ascending"},
		{"sequences that touch", func(s *State) { s.nodes.list[0].used.spans = []span{{1, 2}, {3, 4}} }, "not ascending"},
		{"a checkpoint in between", func(s *State) { s.ring.list[0].at++ }, "checkpoint"},

		{"an extent of too many", func(s *State) { damaged(s, 1).extents().rows[0].Ordinal = maxCount }, "stream 1 has an extent"},
		{"a cut extent of two", func(s *State) {
			cutOf(s).packed = 2<<2 | 1
			damaged(s, 5).extents().rows[2].packed = 1 << 2
		}, "stream 5 has an extent"},
		{"a cut extent of none", func(s *State) { cutOf(s).packed = 1 }, "extents of stream 5 end"},
		{"a cut extent of no bytes", func(s *State) { cutOf(s).Bytes = 0 }, "stream 5 has an extent"},
		{"a fork of itself", func(s *State) { forkOf(s, 5).Parent = 5 }, "not older"},
		{"a fork of a younger stream", func(s *State) { forkOf(s, 5).Parent = 6 }, "not older"},
		{"a fork of nobody", func(s *State) { forkOf(s, 5).Parent = 0 }, "not older"},
		{"a fork of another log's stream", func(s *State) { forkOf(s, 5).Parent = stream.MakeID(1, 1) }, "at most"},
		{"a fork of one without forks", func(s *State) { forkOf(s, 5).Parent = 2 }, "claims fewer forks"},
		{"a fork of a nameless stream", func(s *State) { forkOf(s, 5).From = "" }, "stream 5 breaks"},
		{"a fork that ends below its offset", func(s *State) { forkOf(s, 5).End-- }, "stream 5 breaks"},
		{"a fork that ends above its offset", func(s *State) { forkOf(s, 5).At--; forkOf(s, 5).Sub = 0 }, "stream 5 breaks"},
		{"a fork that ends beyond its sub-offset", func(s *State) { forkOf(s, 4).At -= 2 }, "stream 4 breaks"},
		{"a fork that does not go as far", func(s *State) { forkOf(s, 5).Sub = 1 }, "stream 5 breaks"},
		{"a fork that ends beyond its tail", func(s *State) { f := forkOf(s, 5); f.At, f.End = 7, 7 }, "stream 5 breaks"},
		{"a fork of another name", func(s *State) { forkOf(s, 5).From = "f" }, `it forked "f" at 5; its parent, stream 4, is "d"`},
		{"a fork of more than there was", func(s *State) { f := forkOf(s, 5); f.At, f.End = 6, 6 }, "stream 4, is \"d\" and ends at 5"},
		{"fewer forks than there are", func(s *State) { damaged(s, 1).side().forks-- }, "claims fewer forks"},
		{"more forks than there are", func(s *State) { damaged(s, 1).side().forks++ }, "stream 1 claims 1 more"},
		{"forks of nobody", func(s *State) { damaged(s, 4).side().forks = 0 }, "stream 4 breaks"},
		{"forks that are not counted", func(s *State) { damaged(s, 4).row().flags &^= flagForked }, "claims fewer forks"},
		{"a deleted stream that is closed", func(s *State) { damaged(s, 4).row().flags |= flagClosed }, "stream 4 breaks"},
		{"a deleted stream with a stream-seq", func(s *State) { damaged(s, 4).row().flags |= flagStreamSeq }, "stream 4 breaks"},
		{"a deleted stream with a deadline", func(s *State) { damaged(s, 4).row().expiry = stream.ExpiresAt }, "stream 4 breaks"},
		{"a deleted stream with records", func(s *State) { damaged(s, 5).row().flags |= flagDeleted }, "stream 5 breaks"},
		{"a deleted stream with a producer", func(s *State) {
			damaged(s, 4).side().producers = damaged(s, 2).side().producers
		}, "stream 4 breaks"},
		{"a flag of the future", func(s *State) { damaged(s, 4).row().flags |= knownFlags + 1 }, "at most 127"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := restore(t, smallSnapshot(t))
			test.damage(s)
			_, err := Restore(bytes.NewReader(encode(t, s.BeginSnapshot())))
			assert.ErrorContains(t, err, test.want)
		})
	}
}

// cutOf is the cut extent of stream 5.
func cutOf(s *State) *stored { return &damaged(s, 5).extents().rows[1] }

// forkOf lets a test write to how a stream began.
func forkOf(s *State, id stream.ID) *stream.Fork { return damaged(s, id).side().fork }

// FuzzRestore restores arbitrary bytes: an error, or a state that can be encoded
// and restored. Checksums are made to fit, or nothing would come past them.
func FuzzRestore(f *testing.F) {
	f.Add(smallSnapshot(f))
	f.Add(encode(f, New().BeginSnapshot()))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = withChecksums(data)
		s, err := Restore(bytes.NewReader(data))
		if err != nil {
			return
		}
		if s.items != s.recompute() {
			t.Fatal("the digest kept is not the digest of the state")
		}
		if again := restore(t, encode(t, s.BeginSnapshot())); again.dump() != s.dump() {
			t.Fatalf("restored\n%s\nof\n%s", again.dump(), s.dump())
		}
	})
}
