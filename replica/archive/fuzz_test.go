package archive

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
)

// FuzzRows reads rows that nobody wrote, under a header whose checksum is right:
// what a checksum cannot keep out.
func FuzzRows(f *testing.F) {
	row := appendRow(nil, commands.Row{ID: 5, DatabaseTime: 7, Payload: []byte("payload"), Summary: commands.Summary{Kinds: "tick 1", Commands: 1}}, 0)
	f.Add(row, uint8(1), uint32(len(row)), int64(5))
	f.Add(append(row, row...), uint8(2), uint32(2*len(row)), int64(5))
	f.Add(bytes.Repeat([]byte{0xff}, 100), uint8(1), uint32(MaxBytes), int64(1))
	compressor, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, rows []byte, count uint8, claimed uint32, last int64) {
		compressed := compressor.EncodeAll(rows, nil)
		h := Header{
			Last:      commands.Position{Index: commands.Index(count), Row: commands.RowID(last)},
			RowsBytes: uint64(claimed), Compressed: uint64(len(compressed)),
		}
		encoded := h.encode()
		o, err := NewReader(bytes.NewReader(append(encoded[:], compressed...)))
		for n := 0; err == nil; n++ {
			require.LessOrEqual(t, n, int(count))
			_, err = o.Next()
		}
		if o != nil {
			require.NoError(t, o.Close())
		}
		require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, io.EOF), err)
	})
}
