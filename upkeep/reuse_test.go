package upkeep_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
)

// TestASlotUsedAgainDuringACompaction: while a compaction waits for the bucket,
// for longer than the grace, one of its inputs is collected and another segment
// of the same stream comes into its slot.
func TestASlotUsedAgainDuringACompaction(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 1, 1<<10)
	record := func(c string) []stream.Record { return []stream.Record{{Body: []byte(strings.Repeat(c, 200))}} }
	for i := range 8 {
		_, err := s.Create(t.Context(), stream.Name(fmt.Sprint("s", i)), &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}})
		require.NoError(t, err)
		_, err = s.Append(t.Context(), stream.Name(fmt.Sprint("s", i)), &stream.AppendRequest{Records: record("a")})
		require.NoError(t, err)
	}
	slot := s.replica.View().Extents(1, 0, 1)[0].Segment
	reuse := func() {
		_, err := s.Trim(t.Context(), "s0", 1)
		require.NoError(t, err)
		for _, c := range []commands.Command{&commands.Doom{Slots: []uint32{slot}}, &commands.Collected{Slots: []uint32{slot}}} {
			d, err := s.replica.Propose(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, uint32(1), d.Results[0].Removed)
		}
		_, err = s.Append(t.Context(), "s0", &stream.AppendRequest{Records: record("b")})
		require.NoError(t, err)
		require.Equal(t, slot, s.replica.View().Extents(1, 1, 1)[0].Segment)
	}
	reads := 0
	w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
		if op.Kind == faultbucket.Get && strings.HasPrefix(op.Key, blobwal.LogPrefix(cluster, 0)) {
			if reads++; reads == 2 {
				reuse()
			}
		}
		return faultbucket.Decision{}
	})
	require.NoError(t, s.upkeep.Step(t.Context(), w.now()))
	w.faults.SetPlan(nil)
	require.Positive(t, s.upkeep.Compaction().Runs)
	c, err := s.Read(t.Context(), "s0", stream.ReadRequest{From: stream.At(1), MaxBytes: 1})
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("b", 200), string(c.Runs[0].Body(0)), "the record that was acknowledged")
}
