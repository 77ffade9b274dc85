package stream_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/stream"
)

// obvious is the records of a run, each on its own.
type obvious struct {
	bodies  [][]byte
	headers [][]stream.Header
}

// drawRun draws records and lays them out as a segment does, behind some bytes
// of other records.
func drawRun(t *rapid.T) (stream.Run, obvious) {
	var want obvious
	run := stream.Run{
		First: stream.Offset(rapid.Uint64Range(0, 1<<40).Draw(t, "first")),
		Time:  7,
		JSON:  rapid.Bool().Draw(t, "json"),
		Base:  rapid.Uint32Range(0, 1<<20).Draw(t, "base"),
	}
	want.bodies = rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 8), 1, 12).Draw(t, "bodies")
	for i, body := range want.bodies {
		if i > 0 && run.JSON {
			run.Bodies = append(run.Bodies, ',')
		}
		run.Bodies = append(run.Bodies, body...)
		run.Ends = append(run.Ends, run.Base+uint32(len(run.Bodies)))
		want.headers = append(want.headers, []stream.Header{{Name: "i", Value: string(rune('a' + i))}})
	}
	if rapid.Bool().Draw(t, "headers") {
		run.Headers = want.headers
	}
	return run, want
}

// checkRun compares a run with the records from to but excluding to.
func checkRun(t *rapid.T, run stream.Run, first stream.Offset, want obvious, from, to int) {
	require.Equal(t, to-from, run.Len())
	require.Equal(t, first+stream.Offset(from), run.First)
	for i := range run.Len() {
		require.True(t, bytes.Equal(want.bodies[from+i], run.Body(i)), "body %d of [%d,%d)", i, from, to)
		if run.Headers == nil {
			require.Nil(t, run.HeadersOf(i))
		} else {
			require.Equal(t, want.headers[from+i], run.HeadersOf(i))
		}
	}
	separator := []byte(nil)
	if run.JSON {
		separator = []byte{','}
	}
	require.True(t, bytes.Equal(bytes.Join(want.bodies[from:to], separator), run.Bodies), "the bodies end to end are a slice of the segment")
}

// TestRunSlices: any slice of a run, and any slice of that, is those records.
func TestRunSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run, want := drawRun(t)
		checkRun(t, run, run.First, want, 0, run.Len())

		from := rapid.IntRange(0, run.Len()-1).Draw(t, "from")
		to := rapid.IntRange(from+1, run.Len()).Draw(t, "to")
		once := run.Slice(from, to)
		checkRun(t, once, run.First, want, from, to)

		from2 := rapid.IntRange(0, once.Len()-1).Draw(t, "from again")
		to2 := rapid.IntRange(from2+1, once.Len()).Draw(t, "to again")
		checkRun(t, once.Slice(from2, to2), run.First, want, from+from2, from+to2)
	})
}

// TestRunCut: of one record, the first bytes of its body and all its headers.
func TestRunCut(t *testing.T) {
	run := stream.Run{First: 7, Time: 9, Base: 3, Bodies: []byte("abcdef"), Ends: []uint32{6, 9}, Headers: [][]stream.Header{{{Name: "h"}}, nil}}
	cut := run.Cut(2)
	require.Equal(t, 1, cut.Len())
	require.Equal(t, "ab", string(cut.Body(0)))
	require.Equal(t, run.Headers[0], cut.HeadersOf(0))
	require.Equal(t, 2, cap(cut.Bodies))
	whole := run.Cut(100)
	require.Equal(t, "abc", string(whole.Body(0)))
}

// TestRunSlicesCannotGrow: an append to a slice of shared bytes must not
// write over the records behind it.
func TestRunSlicesCannotGrow(t *testing.T) {
	run := stream.Run{Bodies: []byte("abcd"), Ends: []uint32{2, 4}, Headers: make([][]stream.Header, 2)}
	body, cut := run.Body(0), run.Slice(0, 1)
	require.Equal(t, 2, cap(body))
	require.Equal(t, 2, cap(cut.Bodies))
	require.Equal(t, 1, cap(cut.Ends))
	require.Equal(t, 1, cap(cut.Headers))
	require.Zero(t, testing.AllocsPerRun(10, func() { cut = run.Slice(1, 2) }))
}
