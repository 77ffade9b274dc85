package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/fsck"
	"github.com/picomq/picomq/statemachine"
)

// spoiled is a log that answers otherwise than it should.
type spoiled struct {
	alone
	read func(after commands.Index, rows []commands.Row) ([]commands.Row, error)
	head func(commands.Position) commands.Position
}

func (s spoiled) Read(ctx context.Context, after commands.Index, maxRows, maxBytes int) ([]commands.Row, error) {
	rows, err := s.alone.Read(ctx, after, maxRows, maxBytes)
	if err != nil || s.read == nil {
		return rows, err
	}
	return s.read(after, append([]commands.Row{}, rows...))
}

func (s spoiled) Head(ctx context.Context) (commands.Position, error) {
	at, err := s.alone.Head(ctx)
	if err != nil || s.head == nil {
		return at, err
	}
	return s.head(at), nil
}

// TestABrokenLog: the check says what is wrong, and that it could not go on.
func TestABrokenLog(t *testing.T) {
	w := populate(t)
	for _, test := range []struct {
		name  string
		fault string // "": none, the log could not be read
		spoil spoiled
	}{
		{"a row that does not prove true", "error damaged log", spoiled{read: func(commands.Index, []commands.Row) ([]commands.Row, error) {
			return nil, fmt.Errorf("row 5: %w", commands.ErrDamaged)
		}}},
		{"an early end", "error damaged log", spoiled{read: func(commands.Index, []commands.Row) ([]commands.Row, error) {
			return nil, nil
		}}},
		{"a payload of a later release", "error damaged log", spoiled{read: func(_ commands.Index, rows []commands.Row) ([]commands.Row, error) {
			rows[0].Payload = []byte{0xff}
			return rows, nil
		}}},
		{"another predecessor", "error lost_rows log", spoiled{read: func(_ commands.Index, rows []commands.Row) ([]commands.Row, error) {
			rows[0].Previous++
			return rows, nil
		}}},
		{"another last row", "error damaged log", spoiled{head: func(at commands.Position) commands.Position {
			at.Row++
			return at
		}}},
		{"no answer", "", spoiled{read: func(commands.Index, []commands.Row) ([]commands.Row, error) {
			return nil, errors.New("the database is away")
		}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.spoil.alone = alone{w.log.Peer()}
			f := w.check(t, func(c *fsck.Config) { c.Log = test.spoil })
			if test.fault == "" {
				require.ErrorContains(t, f.err, "away")
				require.Empty(t, f.faults())
				return
			}
			require.ErrorIs(t, f.err, fsck.ErrIncomplete)
			require.Equal(t, []string{test.fault}, f.faults())
		})
	}
}

// TestALogThatIsTruncatedMeanwhile: the check begins again.
func TestALogThatIsTruncatedMeanwhile(t *testing.T) {
	w := populate(t)
	calls := 0
	once := spoiled{alone: alone{w.log.Peer()}, read: func(after commands.Index, rows []commands.Row) ([]commands.Row, error) {
		if calls++; calls == 1 {
			return nil, &commands.TruncatedError{After: after, First: after + 2}
		}
		return rows, nil
	}}
	w.check(t, func(c *fsck.Config) { c.Log = once }).requireOnly(t)
}

// TestADigestThatANodeReported is compared with what replaying gives.
func TestADigestThatANodeReported(t *testing.T) {
	w := newWorld(t)
	s := w.serve(t, 0)
	for s.replica.Applied() < statemachine.CheckpointInterval {
		s.propose(&commands.Tick{})
	}
	d, err := s.replica.Propose(t.Context(), &commands.Checkpoint{At: statemachine.CheckpointInterval, Digest: 1})
	if err == nil { // the replica ends because of it, before or after it answers
		require.Equal(t, statemachine.Diverged, d.Results[0].Verdict)
	}
	<-s.replica.Failed()
	s.stop()
	w.check(t, deep).requireOnly(t, "error diverged log",
		fmt.Sprintf("warning diverged %s/0000/diverged/%016x-%08x", cluster, uint64(s.replica.Applied())+1, 1))
}

// TestInSmallPieces: nothing is lost between them.
func TestInSmallPieces(t *testing.T) {
	w := populate(t)
	large := w.check(t)
	large.requireOnly(t)
	defer fsck.InSmallPieces()()
	small := w.check(t)
	small.requireOnly(t)
	require.Equal(t, large.report, small.report)
	key := w.segments(t, true)[0]
	w.flip(t, key, 100)
	one, other := w.place(t, 7, 1, 1), w.place(t, 7, 1, 2)
	f := w.check(t, repair)
	require.ElementsMatch(t, []string{"error checksum " + key, "warning orphan " + one, "warning orphan " + other}, f.faults())
	require.Equal(t, 2, f.report.Repaired)
}
