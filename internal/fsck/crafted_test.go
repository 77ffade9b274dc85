package fsck_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/fsck"
	"github.com/picomq/picomq/stream"
)

// upload puts a segment of these appends into the bucket, as a writer would, under
// the sequence free, and says what it was.
func (s *server) upload(w *world, appends ...*blobwal.Append) *blobwal.Sealed {
	s.t.Helper()
	identity := s.identity
	sealed := make(chan *blobwal.Sealed, 1)
	writer, err := blobwal.NewWriter(blobwal.WriterConfig{Bucket: w.bucket, Identity: identity, Sealed: func(x *blobwal.Sealed) { sealed <- x }})
	require.NoError(s.t, err)
	for range free - 1 {
		writer.Reserve()
	}
	for _, a := range appends {
		require.NoError(s.t, writer.Add(a))
	}
	x := <-sealed
	require.NoError(s.t, x.Err)
	require.NoError(s.t, writer.Close(s.t.Context()))
	require.EqualValues(s.t, free, x.ID.Sequence)
	return x
}

// free is a sequence that no segment has.
const free = 1000

// TestALogThatClaimsWhatIsNotThere: the log says of a good object what it does
// not hold.
func TestALogThatClaimsWhatIsNotThere(t *testing.T) {
	records := bodies([]string{"one", "two", "three"})
	for _, test := range []struct {
		name   string
		kind   fsck.Kind
		quick  bool
		append blobwal.Append // what is uploaded
		commit commands.Append
	}{
		{"more records", fsck.Records, true, blobwal.Append{Stream: 1, Records: records}, commands.Append{ID: 1, Records: 4, Bytes: 9}},
		{"another stream's", fsck.Owner, true, blobwal.Append{Stream: 2, Records: records}, commands.Append{ID: 1, Records: 3, Bytes: 9}},
		{"those of a newer one", fsck.Owner, true, blobwal.Append{Stream: 1, Records: records}, commands.Append{ID: 4, Records: 3, Bytes: 9}},
		{"another name", fsck.Owner, false, blobwal.Append{Name: "b", Records: records}, commands.Append{ID: 1, Records: 3, Bytes: 9}},
		{"JSON", fsck.MediaType, false, blobwal.Append{Stream: 1, JSON: true, Records: records}, commands.Append{ID: 1, Records: 3, Bytes: 9}},
		{"no JSON", fsck.MediaType, false, blobwal.Append{Stream: 3, Records: records}, commands.Append{ID: 3, Records: 3, Bytes: 9}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.serve(t, 0)
			s.create("a", "text/plain", "first")
			s.create("b", "text/plain", "first")
			s.create("json", "application/json", `"first"`)
			s.fork("a", "fork", 1, 0)
			x := s.upload(w, &test.append)
			s.propose(commands.NewCommitSegment(free, x.Size, []commands.Append{test.commit}, nil))
			s.stop()
			w.check(t).requireOnly(t, "error "+string(test.kind)+" "+x.Key)
			if test.quick {
				w.check(t, quick).requireOnly(t, "error "+string(test.kind)+" "+x.Key)
			} else {
				w.check(t, quick).requireOnly(t)
			}
		})
	}
}

// TestAPackedSegmentThatLies: what compaction would have to do wrong is found.
func TestAPackedSegmentThatLies(t *testing.T) {
	text := func(first stream.Offset, at stream.Time, body string) stream.Run {
		return stream.Run{First: first, Time: at, Bodies: []byte(body), Ends: []uint32{uint32(len(body))}}
	}
	const now = stream.Time(1_000)
	for _, test := range []struct {
		name  string
		kind  fsck.Kind
		id    stream.ID
		runs  []stream.Run
		level uint8
	}{
		{"nothing", "", 1, []stream.Run{text(0, now, "a"), text(1, now, "b")}, 1},
		{"other offsets", fsck.Offsets, 1, []stream.Run{text(5, now, "a"), text(6, now, "b")}, 1},
		{"another stream", fsck.Owner, 2, []stream.Run{text(0, now, "a"), text(1, now, "b")}, 1},
		{"times that fall", fsck.Times, 1, []stream.Run{text(0, now, "a"), text(1, now-1, "b")}, 1},
		{"times out of bounds", fsck.Times, 1, []stream.Run{text(0, now-10, "a"), text(1, now, "b")}, 1},
		{"too few", fsck.Records, 1, []stream.Run{text(0, now, "a")}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.serve(t, 0)
			s.create("a", "text/plain", "a", "b")
			s.create("b", "text/plain")
			old := s.replica.View().Extents(1, 0, 1)[0]
			p, err := blobwal.NewPacker(s.identity, free, 1<<20)
			require.NoError(t, err)
			for _, run := range test.runs {
				_, err := p.Add(test.id, run)
				require.NoError(t, err)
			}
			packed := p.Seal()
			key := blobwal.Key(cluster, packed.ID)
			w.write(t, key, packed.Object)
			slot := s.propose(&commands.Pack{
				Sequence: free, Size: uint64(len(packed.Object)), Level: test.level, Oldest: now - 1, Newest: now, First: 1, Last: 1,
			}).Segment
			s.propose(commands.NewSwap(slot, free, []commands.Run{{ID: 1, Bytes: 9, Pieces: []commands.Piece{{Slot: old.Segment, Count: 2}}}}))
			s.stop()
			if test.kind == "" {
				w.check(t).requireOnly(t)
				return
			}
			f := w.check(t)
			require.NoError(t, f.err)
			require.NotEmpty(t, f.faults())
			for _, fault := range f.faults() {
				require.Equal(t, "error "+string(test.kind)+" "+key, fault)
			}
		})
	}
}

// TestALevelThatIsNone: an object of appends that the log has as a packed one.
func TestALevelThatIsNone(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 0)
	s.create("a", "text/plain", "a")
	old := s.replica.View().Extents(1, 0, 1)[0]
	x := s.upload(w, &blobwal.Append{Stream: 1, Records: bodies([]string{"a"})})
	slot := s.propose(&commands.Pack{Sequence: free, Size: x.Size, Level: 1, Oldest: 1, Newest: 1, First: 1, Last: 1}).Segment
	s.propose(commands.NewSwap(slot, free, []commands.Run{{ID: 1, Bytes: 9, Pieces: []commands.Piece{{Slot: old.Segment, Count: 1}}}}))
	s.stop()
	w.check(t).requireOnly(t, "error foreign "+x.Key)
}

// TestACutLongerThanTheRecord: a fork cannot have more of a record than there is.
func TestACutLongerThanTheRecord(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 0)
	s.create("a", "text/plain", "abc", "def")
	at := stream.Offset(1)
	s.propose(&commands.Create{Name: "cut", Fork: &commands.Fork{Parent: 1, At: &at, Sub: 2, Cut: 2}})
	s.stop()
	w.check(t).requireOnly(t)

	s = w.serve(t, 1)
	s.propose(&commands.Create{Name: "too long", Fork: &commands.Fork{Parent: 1, At: &at, Sub: 4, Cut: 4}})
	s.stop()
	w.check(t).requireOnly(t, "error records "+w.segments(t, false)[0])
}

// TestRecordsThatTwoStreamsShare: relatives may, others may not.
func TestRecordsThatTwoStreamsShare(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 0)
	s.create("a", "text/plain", "a0", "a1")
	s.create("b", "text/plain", "b0", "b1")
	s.fork("b", "fork of b", 2, 0)
	p, err := blobwal.NewPacker(s.identity, free, 1<<20)
	require.NoError(t, err)
	_, err = p.Add(1, stream.Run{Time: 1, Bodies: []byte("a0a1"), Ends: []uint32{2, 4}})
	require.NoError(t, err)
	packed := p.Seal()
	key := blobwal.Key(cluster, packed.ID)
	w.write(t, key, packed.Object)
	slot := s.propose(&commands.Pack{Sequence: free, Size: uint64(len(packed.Object)), Level: 1, Oldest: 1, Newest: 1, First: 1, Last: 3}).Segment
	run := func(id stream.ID) commands.Run {
		old := s.replica.View().Extents(id, 0, 1)[0]
		return commands.Run{ID: id, Bytes: 9, Pieces: []commands.Piece{{Slot: old.Segment, Ordinal: old.Ordinal, Count: old.Count()}}}
	}
	s.propose(commands.NewSwap(slot, free, []commands.Run{run(1), run(3)}))
	s.stop()
	f := w.check(t)
	f.requireOnly(t, "error shared "+key)
	require.Contains(t, f.list[0].What, `stream "a" and record 0 of stream "fork of b"`)
}

// TestAnotherStartsSegment: the marker says who may write under an epoch.
func TestAnotherStartsSegment(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 0)
	s.create("a", "text/plain", "a")
	s.identity.Incarnation[0] ^= 1
	x := s.upload(w, &blobwal.Append{Stream: 1, Records: bodies([]string{"x"})})
	s.propose(commands.NewCommitSegment(free, x.Size, []commands.Append{{ID: 1, Records: 1, Bytes: 9}}, nil))
	s.stop()
	w.check(t).requireOnly(t, "error foreign "+x.Key)
	w.serve(t, 1).stop() // now the log has another epoch in force, the bucket still the marker
	w.check(t).requireOnly(t, "error foreign "+x.Key)
}
