package wire_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// allocationSlack is what a decoder may allocate however short its input: its
// error message and what else runs in the process meanwhile.
const allocationSlack = 64 << 10

// requireBounded runs a decoder and fails when it allocated more than its input
// allows.
func requireBounded(t *testing.T, input int, decode func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	decode()
	runtime.ReadMemStats(&after)
	require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(input*wire.MaxAmplification+allocationSlack))
}

func FuzzDecodeBinaryAppend(f *testing.F) {
	f.Add([]byte(goldenBinaryAppend))
	f.Add([]byte("\x01\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var records []stream.Record
		var err error
		requireBounded(t, len(data), func() { records, err = wire.DecodeBinaryAppend(data, nil) })
		if err == nil {
			require.Equal(t, data, wire.EncodeBinaryAppend(nil, records), "a binary batch has one spelling")
		}
	})
}

func FuzzDecodeBinaryRead(f *testing.F) {
	f.Add([]byte(goldenBinaryRead))
	f.Fuzz(func(t *testing.T, data []byte) {
		requireBounded(t, len(data), func() { _, _ = wire.DecodeBinaryRead(data) })
	})
}

func FuzzDecodeJSONAppend(f *testing.F) {
	f.Add([]byte(goldenJSONAppend))
	f.Add([]byte(`{"x":[[{}]],"records":[{"headers":null,"body":"\ud83d\ude00\/","k":1e5}]}`))
	f.Add(bytes.Repeat([]byte(`[`), 1000))
	f.Fuzz(func(t *testing.T, data []byte) {
		var records []stream.Record
		var err error
		requireBounded(t, len(data), func() { records, err = wire.DecodeJSONAppend(data, nil) })
		if err != nil {
			return
		}
		again, err := wire.DecodeJSONAppend(wire.EncodeJSONAppend(nil, records), nil)
		require.NoError(t, err)
		assertSame(t, records, again)
	})
}

func FuzzDecodeJSONRead(f *testing.F) {
	f.Add([]byte(goldenJSONRead))
	f.Fuzz(func(t *testing.T, data []byte) {
		requireBounded(t, len(data), func() { _, _ = wire.DecodeJSONRead(data) })
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add("0000000000000000_0000000000000042")
	f.Add("9999999999999999_9999999999999999")
	f.Fuzz(func(t *testing.T, text string) {
		offset, err := wire.ParseToken(text)
		if err == nil && offset <= stream.MaxOffset {
			require.Equal(t, text, wire.FormatToken(offset), "an offset has one spelling")
		}
	})
}

// However a stream is cut into reads, it means the same.
func FuzzEventReader(f *testing.F) {
	f.Add([]byte(freeStream), 3)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = max(0, min(cut, len(data)))
		whole, err := readEvents(wire.NewEventReader(bytes.NewReader(data), 256))
		parts := io.MultiReader(bytes.NewReader(data[:cut]), bytes.NewReader(data[cut:]))
		halves, halvesErr := readEvents(wire.NewEventReader(parts, 256))
		require.Equal(t, whole, halves)
		require.Equal(t, errors.Is(err, io.EOF), errors.Is(halvesErr, io.EOF))
	})
}
