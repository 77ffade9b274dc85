package commands_test

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
)

// allocated is the bytes that f allocates, whether or not they are kept. Tests
// of this package do not run in parallel, so they are f's alone.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func encoded(cmds ...commands.Command) []byte {
	p := one(cmds...)
	return p.Encode()
}

// TestDecodingAllocatesInProportion feeds the decoder what costs it most per
// byte and holds it to the bound that DecodePayload documents.
func TestDecodingAllocatesInProportion(t *testing.T) {
	const n = 60_000
	repeat := func(item string, count int) []byte { return bytes.Repeat(bytesOf(t, item), count) }
	proposal := func(head string, body []byte) []byte {
		return append(bytesOf(t, "bf 01 01 03 81 bf 04 "+head), body...)
	}
	// Closed is a row that decodes; open ends early, after all was allocated.
	closed := func(data []byte) []byte { return append(data, 0xff, 0xff) }
	for _, c := range []struct {
		what string
		data []byte
		ok   bool
	}{
		{"proposals announced, none there", append(bytesOf(t, "bf 01 01 03 99 ea 60"), make([]byte, n)...), false},
		{"as many as bytes remain", append(bytesOf(t, "bf 01 01 03 99 75 30"), make([]byte, n)...), false},
		{"2^64-1 proposals announced", bytesOf(t, "bf 01 01 03 9b ffffffffffffffff ff"), false},
		{"empty proposals", append(append(bytesOf(t, "bf 01 01 03 99 ea 60"), repeat("bf ff", n)...), 0xff), true},
		{"commits without fields", closed(proposal("99 ea 60", repeat("83 02 01 bf ff", n))), true},
		{"registrations without fields", closed(proposal("99 ea 60", repeat("83 01 01 bf ff", n))), true},
		{"ticks", closed(proposal("99 ea 60", repeat("83 09 01 bf ff", n))), true},
		{"touches of one stream", closed(proposal("99 ea 60", repeat("83 07 01 bf 01 81 01 ff", n))), true},
		{"closes with empty conditions", closed(proposal("99 ea 60", repeat("83 04 01 bf 02 bf ff 03 00 04 60 ff", n))), true},
		{"creates of empty forks", closed(proposal("99 ea 60", repeat("83 03 01 bf 07 bf ff ff", n))), true},
		{"creates of forks at the start", closed(proposal("99 ea 60", repeat("83 03 01 bf 07 bf 02 00 ff ff", n))), true},
		{"empty forks in a commit, none of them used", proposal("81", append(bytesOf(t, "83 02 01 bf 0c 99 ea 60"), repeat("bf 07 bf ff ff", n)...)), false},
		{"empty creates in a commit, none of them used", proposal("81", append(bytesOf(t, "83 02 01 bf 0c 99 ea 60"), repeat("bf ff", n)...)), false},
		{"creates announced in every list above them", append(bytesOf(t, "bf 01 01 03 99 75 00 bf 04 99 2e 00 83 02 01 bf 0c 99 75 00"), make([]byte, n)...), false},
		{"empty producer ids", proposal("81", append(bytesOf(t, "83 02 01 bf 0b 99 ea 60"), repeat("60", n)...)), false},
		{"producer ids of one byte", proposal("81", append(bytesOf(t, "83 02 01 bf 0b 99 ea 60"), repeat("61 61", n)...)), false},
		{"sequences given up", proposal("81", append(bytesOf(t, "83 02 01 bf 0d 99 ea 60"), repeat("01", n)...)), false},
		{"ids beyond what a touch may name", proposal("81", append(bytesOf(t, "83 07 01 bf 01 99 ea 60"), repeat("01", n)...)), false},
		{"dooms of one segment", closed(proposal("99 ea 60", repeat("83 0c 01 bf 01 81 01 ff", n))), true},
		{"swaps of nothing", closed(proposal("99 ea 60", repeat("83 0f 01 bf ff", n))), true},
		{"packs without fields", closed(proposal("99 ea 60", repeat("83 0e 01 bf ff", n))), true},
		{"a run of pieces that end early", encoded(&commands.Swap{
			Count: 1, IDs: []byte{2}, Firsts: []byte{0}, Ordinals: []byte{0}, Bytes: []byte{0}, Lengths: []byte{0xff, 0xff, 0x03},
			Slots: make([]byte, n), Froms: make([]byte, n), Counts: bytes.Repeat([]byte{2}, n+10_000),
		}), false},
		{"swaps of one piece", encoded(slices.Repeat([]commands.Command{
			commands.NewSwap(0, 0, []commands.Run{{Pieces: []commands.Piece{{Count: 1}}}}),
		}, n/20)...), true},
		{"text announced, not there", proposal("81", bytesOf(t, "83 03 01 bf 01 7a ffffffff")), false},
	} {
		t.Run(c.what, func(t *testing.T) {
			var err error
			got := allocated(func() { _, err = commands.DecodePayload(c.data) })
			require.Equal(t, c.ok, err == nil, "%v", err)
			// The constant of the documented bound, and what the runtime itself
			// allocates meanwhile.
			limit := 96*uint64(len(c.data)) + 1<<10 + 4<<10
			require.LessOrEqual(t, got, limit, "%d bytes in, %d allocated", len(c.data), got)
			t.Logf("%.1f bytes allocated per byte", float64(got)/float64(len(c.data)))
		})
	}
}
