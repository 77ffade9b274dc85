package fsck_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/internal/fsck"
)

// damage is one way to break an object.
type damage struct {
	name  string
	kind  fsck.Kind
	quick bool // reading the end of the object shows it
	do    func(t *testing.T, w *world, key string)
}

var damages = []damage{
	{"deleted", fsck.Missing, true, func(t *testing.T, w *world, key string) { w.delete(t, key) }},
	{"cut", fsck.Truncated, true, func(t *testing.T, w *world, key string) {
		data := w.read(t, key)
		w.write(t, key, data[:len(data)-1])
	}},
	{"emptied", fsck.Truncated, true, func(t *testing.T, w *world, key string) { w.write(t, key, nil) }},
	{"grown", fsck.TooLong, true, func(t *testing.T, w *world, key string) { w.write(t, key, append(w.read(t, key), 0)) }},
	{"zeroed", fsck.Truncated, true, func(t *testing.T, w *world, key string) { w.write(t, key, make([]byte, len(w.read(t, key)))) }},
	{"header", fsck.Checksum, false, func(t *testing.T, w *world, key string) { w.flip(t, key, 40) }},
	{"first block", fsck.Checksum, false, func(t *testing.T, w *world, key string) { w.flip(t, key, 72+5) }},
	{"index", fsck.Checksum, true, func(t *testing.T, w *world, key string) { w.flip(t, key, -40) }},
	{"footer", fsck.Checksum, true, func(t *testing.T, w *world, key string) { w.flip(t, key, -20) }},
}

// TestABrokenSegmentIsFound: each damage to the object of a segment, written by
// appends or by compaction, is found as what it is, and nothing else is.
func TestABrokenSegmentIsFound(t *testing.T) {
	w := populate(t)
	for _, packed := range []bool{false, true} {
		key := w.segments(t, packed)[0]
		before := w.read(t, key)
		for _, d := range damages {
			t.Run(fmt.Sprintf("packed=%t/%s", packed, d.name), func(t *testing.T) {
				d.do(t, w, key)
				f := w.check(t)
				f.requireOnly(t, fmt.Sprintf("error %s %s", d.kind, key))
				require.Contains(t, f.list[0].What, "it holds records ")
				require.Contains(t, f.list[0].What, ` of stream "`)
				if d.quick {
					w.check(t, quick).requireOnly(t, fmt.Sprintf("error %s %s", d.kind, key))
				} else {
					w.check(t, quick).requireOnly(t)
				}
				w.write(t, key, before)
			})
		}
	}
	w.check(t).requireOnly(t)
}

// TestEveryByteOfASegmentCounts: whatever byte is altered, it is found.
func TestEveryByteOfASegmentCounts(t *testing.T) {
	w := populate(t)
	key := w.segments(t, true)[0]
	for at := 0; at < len(w.read(t, key)); at += 7 {
		w.flip(t, key, at)
		f := w.check(t)
		require.NoError(t, f.err)
		require.Len(t, f.faults(), 1, "byte %d: %v", at, f.list)
		require.Equal(t, key, f.list[0].Object)
		w.flip(t, key, at)
	}
}

// TestSwappedObjects: two objects of one size under each other's key.
func TestSwappedObjects(t *testing.T) {
	w := populate(t)
	keys := w.segments(t, false)
	one, other := "", ""
	for i := range keys {
		for j := range i {
			if len(w.read(t, keys[i])) == len(w.read(t, keys[j])) {
				one, other = keys[i], keys[j]
			}
		}
	}
	require.NotEmpty(t, one)
	a, b := w.read(t, one), w.read(t, other)
	require.False(t, bytes.Equal(a, b))
	w.write(t, one, b)
	w.write(t, other, a)
	w.check(t).requireOnly(t, "error foreign "+one, "error foreign "+other)
	w.check(t, quick).requireOnly(t, "error foreign "+one, "error foreign "+other)
}

// TestALargeObject: one that is not read whole is checked as well.
func TestALargeObject(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 0)
	var records []string
	for i := range 100 {
		records = append(records, string(bytes.Repeat([]byte{byte('a' + i%26)}, 100_000)))
	}
	s.create("large", "text/plain", records...)
	s.stop()
	w.check(t).requireOnly(t)
	key := w.segments(t, false)[0]
	size := len(w.read(t, key))
	require.Greater(t, size, 9<<20)
	for _, at := range []int{40, 72 + 5, size / 2, -40, -20} {
		w.flip(t, key, at)
		w.check(t).requireOnly(t, "error checksum "+key)
		w.flip(t, key, at)
	}
	// Two blocks: still one finding.
	w.flip(t, key, size/2)
	w.flip(t, key, size/4)
	f := w.check(t)
	f.requireOnly(t, "error checksum "+key)
	require.Contains(t, f.list[0].What, "1 other of its 100 blocks")
}

// TestABlockThatNobodyNeeds: what was trimmed away may be damaged at little cost.
func TestABlockThatNobodyNeeds(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 0)
	big := string(bytes.Repeat([]byte{'x'}, 60_000))
	s.create("a", "text/plain", big, big, big)
	_, err := s.Trim(t.Context(), "a", 2)
	require.NoError(t, err)
	s.stop()
	key := w.segments(t, false)[0]
	w.flip(t, key, 1000)
	w.check(t).requireOnly(t, "warning checksum "+key)
}

// TestMissingWhatNothingRefersTo: a dead segment's object is not needed.
func TestMissingWhatNothingRefersTo(t *testing.T) {
	w := populate(t)
	list, _ := w.view(t).Segments(0, 1<<20)
	for i := range list {
		if s := &list[i]; s.Dead() && s.Doomed == 0 {
			w.delete(t, keyOf(&s.Segment))
			w.check(t).requireOnly(t, "warning missing "+keyOf(&s.Segment))
			w.check(t, w.besideACluster).requireOnly(t)
			return
		}
	}
	require.Fail(t, "no dead segment")
}

// TestTheBucketIsAway: what cannot be read is no finding.
func TestTheBucketIsAway(t *testing.T) {
	w := populate(t)
	key := w.segments(t, false)[0]
	w.failing(key, 2)
	w.check(t).requireOnly(t)
	for _, key := range []string{key, w.keys(t, "snapshots/")[0], w.keys(t, "archive/")[0], blobwal.IdentityKey} {
		w.failing(key, 1000)
		f := w.check(t, deep)
		require.ErrorContains(t, f.err, "injected")
		require.Empty(t, f.faults())
	}
}
