package commands_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
)

func TestLostTailErrorNamesTheRange(t *testing.T) {
	gone := &commands.LostTailError{Applied: commands.Position{Index: 9, Row: 0x99}, Head: commands.Position{Index: 6, Row: 0x66}}
	require.EqualError(t, gone, "the log lost rows that were applied: rows 7 to 9 are gone (applied up to 9#0000000000000099, "+
		"the log ends at 6#0000000000000066): restore the database to a state that has them")

	replaced := &commands.LostTailError{Applied: commands.Position{Index: 9, Row: 0x99}, Found: 0x98, Head: commands.Position{Index: 12, Row: -1}}
	require.EqualError(t, replaced, "the log lost rows that were applied: rows up to 9 were replaced by others (applied 9#0000000000000099, "+
		"the log has 9#0000000000000098 there and ends at 12#ffffffffffffffff): restore the database to a state that has them")

	require.ErrorIs(t, fmt.Errorf("append: %w", gone), commands.ErrLostTail)
	require.False(t, errors.Is(gone, commands.ErrUnknown))
}

func TestRegistrationOrigin(t *testing.T) {
	o := commands.RegistrationOrigin(incarnation)
	require.Equal(t, "0/615033312599804813/1", o.String())
	require.NotZero(t, commands.RegistrationOrigin(commands.Incarnation{}).Epoch)
	require.Positive(t, int64(commands.RegistrationOrigin(commands.Incarnation{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}).Epoch), "an epoch fits the signed integers of SQL")
}

func TestSummary(t *testing.T) {
	p := one(
		&commands.Touch{IDs: nil},
		commands.NewCommitSegment(1, 10, []commands.Append{{ID: 1, Records: 5, Bytes: 1}, {ID: 2, Records: 1, Bytes: 1}}, nil),
		&commands.Tick{},
		commands.NewCommitSegment(2, 10, []commands.Append{{ID: 1, Records: 1, Bytes: 1}}, nil),
	)
	require.Equal(t, commands.Summary{Kinds: "commit 2 touch 1 tick 1", Commands: 4, Appends: 3}, p.Summary())
	require.Equal(t, commands.Summary{}, (&commands.Payload{}).Summary())
}

func TestNamesForPeople(t *testing.T) {
	require.Equal(t, "c1c2c3c4c5c6c7c8c9cacbcccdcecfd0", cluster.String())
	require.Equal(t, "1112131415161718191a1b1c1d1e1f20", incarnation.String())
	require.Equal(t, "commit", commands.KindCommitSegment.String())
	require.Equal(t, "kind_99", commands.Kind(99).String())
	row := commands.Row{Index: 4, ID: 5}
	require.Equal(t, "4#0000000000000005", row.Position().String())
}

func TestPayloadDigest(t *testing.T) {
	require.Equal(t, uint64(0xef46db3751d8e999), commands.PayloadDigest(nil), "XXH64 of nothing")
	require.Equal(t, uint64(0xd24ec4f1a98c6e5b), commands.PayloadDigest([]byte("a")))
}
