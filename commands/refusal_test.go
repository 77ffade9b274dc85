package commands_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
)

// row is a payload written by hand: bytes in hexadecimal, with spaces. It
// holds one proposal without an origin and the given commands.
func row(t *testing.T, count, cmds string) []byte {
	t.Helper()
	return bytesOf(t, "bf 01 01 03 81 bf 04 "+count+" "+cmds+" ff ff")
}

func bytesOf(t *testing.T, digits string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	require.NoError(t, err)
	return data
}

// TestRefusedPayloads is a table of what a decoder that is not strict would
// take. Two spellings of one value would be two digests of one payload.
func TestRefusedPayloads(t *testing.T) {
	for _, c := range []struct{ what, data, message string }{
		{"nothing", "", "the start of a map is missing"},
		{"not a map", "80", "the start of a map is missing"},
		{"a map that does not end", "bf 01 01", "the end of a map"},
		{"no format", "bf ff", "the payload format is missing"},
		{"format 0", "bf 01 00 ff", "field 1 is written although it is zero"},
		{"bytes after the end", "bf 01 01 ff 00", "1 bytes after the end"},
		{"a second payload", "bf 01 01 ff bf 01 01 ff", "4 bytes after the end"},
		{"keys out of order", "bf 02 05 01 01 ff", "the payload format is missing"},
		{"a key twice", "bf 01 01 01 01 ff", "the end of a map"},
		{"an unknown key", "bf 01 01 04 01 ff", "the end of a map"},
		{"a key that is text", "bf 01 01 61 61 01 ff", "the end of a map"},
		{"a value of the wrong type", "bf 01 01 03 01 ff", "item of type 0 where type 4 belongs"},
		{"a number in two bytes that fits one", "bf 01 18 01 ff", "shortest form"},
		{"a number in three bytes that fits two", "bf 01 01 02 19 00 ff ff", "shortest form"},
		{"a number in five bytes that fits three", "bf 01 01 02 1a 00 00 ff ff ff", "shortest form"},
		{"a number in nine bytes that fits five", "bf 01 01 02 1b 00 00 00 00 ff ff ff ff ff", "shortest form"},
		{"a clock of zero that is written", "bf 01 01 02 00 ff", "field 2 is written although it is zero"},
		{"a clock beyond 64 bits", "bf 01 01 02 1b ff ff ff ff ff ff ff ff ff", "field 2 is not a 64-bit integer"},
		{"a clock below 64 bits", "bf 01 01 02 3b ff ff ff ff ff ff ff ff ff", "field 2 is not a 64-bit integer"},
		{"a clock that is text", "bf 01 01 02 61 61 ff", "field 2 is not a 64-bit integer"},
		{"an indefinite array", "bf 01 01 03 9f ff ff", "unexpected byte 0x9f"},
		{"an empty array that is written", "bf 01 01 03 80 ff", "field 3 is written although it is zero"},
		{"more items than bytes", "bf 01 01 03 9b 00 ff ff ff ff ff ff ff ff", "items announced"},
		{"a node beyond 32 bits", "bf 01 01 03 81 bf 01 1b 00 00 00 01 00 00 00 00 ff ff", "field 1: 4294967296 does not fit"},
		{"a command of two elements", "bf 01 01 03 81 bf 04 81 82 09 01 bf ff ff ff", "array of 2 where 3 belong"},
		{"a command whose fields are no map", "bf 01 01 03 81 bf 04 81 83 09 01 a0 ff ff", "the start of a map is missing"},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := commands.DecodePayload(bytesOf(t, c.data))
			require.ErrorContains(t, err, c.message)
		})
	}
}

func TestRefusedFields(t *testing.T) {
	for _, c := range []struct{ what, command, message string }{
		{"a field of a command without fields", "83 09 01 bf 01 01 ff", "an unknown field"},
		{"a number that is zero", "83 06 01 bf 01 00 ff", "field 1 is written although it is zero"},
		{"text that is empty", "83 03 01 bf 01 60 ff", "field 1 is written although it is zero"},
		{"text that is not UTF-8", "83 03 01 bf 01 61 ff ff", "text that is not UTF-8"},
		{"a byte string that is UTF-8", "83 03 01 bf 01 41 61 ff", "a byte string that is UTF-8; it must be text"},
		{"an empty byte string", "83 02 01 bf 0b 81 40 ff", "a byte string that is UTF-8; it must be text"},
		{"a number in place of a string", "83 03 01 bf 01 01 ff", "item of type 0 where a string belongs"},
		{"text longer than what is left", "83 03 01 bf 01 7b 7f ff ff ff ff ff ff ff", "bytes announced"},
		{"bytes longer than what is left", "83 02 01 bf 04 5a ff ff ff ff", "bytes announced"},
		{"bytes that are empty", "83 02 01 bf 04 40 ff", "field 4 is written although it is zero"},
		{"a flag that is false", "83 03 01 bf 06 f4 ff", "true is missing"},
		{"a flag that is a number", "83 03 01 bf 06 01 ff", "true is missing"},
		{"an identity of 15 bytes", "83 01 01 bf 01 4f 010203040506070809101112131415 ff", "field 1 has 15 bytes where 16 belong"},
		{"an identity of zeros that is written", "83 01 01 bf 01 50 00000000000000000000000000000000 ff", "field 1 is written although it is zero"},
		{"a kind of expiry beyond 8 bits", "83 03 01 bf 03 19 01 00 ff", "field 3: 256 does not fit"},
		{"a fork that is no map", "83 03 01 bf 07 01 ff", "the start of a map is missing"},
		{"a fork's unknown field", "83 03 01 bf 07 bf 05 01 ff ff", "the end of a map"},
		{"a fork's parent that is zero", "83 03 01 bf 07 bf 01 00 ff ff", "field 1 is written although it is zero"},
		{"a cut beyond 32 bits", "83 03 01 bf 07 bf 04 1b 00 00 00 01 00 00 00 00 ff ff", "field 4: 4294967296 does not fit"},
		{"an array of ids that is empty", "83 07 01 bf 01 80 ff", "field 1 is written although it is zero"},
		{"more ids than one command may name", "83 07 01 bf 01 99 10 01" + strings.Repeat("01", 4097) + "ff", "4097 ids; at most 4096 are allowed"},
		{"an array of slots that is empty", "83 0c 01 bf 01 80 ff", "field 1 is written although it is zero"},
		{"more slots than one doom may name", "83 0c 01 bf 01 99 10 01" + strings.Repeat("01", 4097) + "ff", "4097 slots; at most 4096 are allowed"},
		{"more slots than one collection may name", "83 0d 01 bf 01 99 10 01" + strings.Repeat("01", 4097) + "ff", "4097 slots; at most 4096 are allowed"},
		{"a slot beyond 32 bits", "83 0d 01 bf 01 81 1b 00 00 00 01 00 00 00 00 ff", "slot 4294967296 does not fit"},
		{"a level beyond 8 bits", "83 0e 01 bf 03 19 01 00 ff", "field 3: 256 does not fit"},
		{"a pack that gives up too many", "83 0e 01 bf 08 99 10 01" + strings.Repeat("01", 4097) + "ff", "4097 sequences given up; at most 4096 are allowed"},
		{"a trim for upkeep that says no", "83 05 01 bf 03 f4 ff", "true is missing"},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := commands.DecodePayload(row(t, "81", c.command))
			require.ErrorContains(t, err, c.message)
		})
	}
}

// TestNewerPayloads: what a newer release wrote is told from what is broken,
// because the one asks for an upgrade and the other for a backup.
func TestNewerPayloads(t *testing.T) {
	for _, c := range []struct {
		what    string
		data    []byte
		unknown commands.UnknownError
		message string
	}{
		{
			"format", bytesOf(t, "bf 01 02 63 6e6577 ff"),
			commands.UnknownError{Format: 2},
			"payload format 2 is newer than this binary, which reads format 1 (feature level 1): run a newer release",
		},
		{
			"kind", row(t, "81", "83 18 c8 01 bf 09 09 ff"),
			commands.UnknownError{Kind: 200, Version: 1},
			"command kind 200 version 1 is newer than this binary (feature level 1): run a newer release",
		},
		{"kind beyond 8 bits", row(t, "81", "83 19 01 00 01 bf ff"), commands.UnknownError{Kind: 255, Version: 1}, "newer release"},
		{"kind after one that is known", row(t, "82", "83 09 01 bf ff 83 17 01 bf ff"), commands.UnknownError{Kind: 23, Version: 1}, "newer release"},
		{"version", row(t, "81", "83 09 02 bf ff"), commands.UnknownError{Kind: commands.KindTick, Version: 2}, "newer release"},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := commands.DecodePayload(c.data)
			var unknown *commands.UnknownError
			require.ErrorAs(t, err, &unknown)
			require.Equal(t, c.unknown, *unknown)
			require.ErrorContains(t, err, c.message)
		})
	}
	t.Run("broken is not newer", func(t *testing.T) {
		_, err := commands.DecodePayload(row(t, "81", "83 06 01 bf 01 00 ff"))
		var unknown *commands.UnknownError
		require.NotErrorAs(t, err, &unknown)
	})
}

func TestPayloadAboveItsLimit(t *testing.T) {
	_, err := commands.DecodePayload(make([]byte, commands.MaxPayload+1))
	require.ErrorContains(t, err, "payload of 16777217 bytes is longer than 16777216")
}

// TestEveryTruncation: a payload cut anywhere is refused.
func TestEveryTruncation(t *testing.T) {
	for name, data := range allGolden(t) {
		for n := range data {
			_, err := commands.DecodePayload(data[:n])
			require.Error(t, err, "%s cut to %d of %d bytes", name, n, len(data))
		}
	}
}

// TestEveryByteFlip: whatever one byte becomes, decoding does not panic, and
// what it accepts is another payload in its one spelling.
func TestEveryByteFlip(t *testing.T) {
	for name, data := range allGolden(t) {
		for i := range data {
			for flip := 1; flip < 256; flip++ {
				changed := append([]byte(nil), data...)
				changed[i] ^= byte(flip)
				if p, err := commands.DecodePayload(changed); err == nil {
					require.Equal(t, changed, p.Encode(), "%s with byte %d changed by %#02x", name, i, flip)
				}
			}
		}
	}
}
