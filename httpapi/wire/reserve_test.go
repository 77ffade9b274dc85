package wire_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// appendFormats are the formats of batches to append.
var appendFormats = map[string]struct {
	encode func(dst []byte, records []stream.Record) []byte
	decode func(data []byte, reserve wire.Reserve) ([]stream.Record, error)
}{
	"binary": {wire.EncodeBinaryAppend, wire.DecodeBinaryAppend},
	"JSON":   {wire.EncodeJSONAppend, wire.DecodeJSONAppend},
}

func TestBatchesAreBoundedInRecords(t *testing.T) {
	for name, format := range appendFormats {
		t.Run(name, func(t *testing.T) {
			records, err := format.decode(format.encode(nil, make([]stream.Record, stream.MaxRecords)), nil)
			require.NoError(t, err)
			assert.Len(t, records, stream.MaxRecords)
			assert.Equal(t, stream.MaxRecords, cap(records), "no more than there are")

			for _, many := range []int{stream.MaxRecords + 1, 20 * stream.MaxRecords} {
				batch := format.encode(nil, make([]stream.Record, many))
				allocated := testing.AllocsPerRun(1, func() {
					_, err = format.decode(batch, func(int64) error { t.Error("memory was asked for"); return nil })
				})
				assert.Equal(t, stream.CodeTooLarge, stream.CodeOf(err), "%v", err)
				assert.Less(t, allocated, 100.0)
			}
		})
	}
	// The count that a batch announces decides, before anything is read.
	announced := binary.BigEndian.AppendUint32([]byte{1}, stream.MaxRecords+1)
	_, err := wire.DecodeBinaryAppend(append(announced, make([]byte, 8*(stream.MaxRecords+1))...), nil)
	assert.Equal(t, stream.CodeTooLarge, stream.CodeOf(err))
}

func TestMemoryIsReservedBeforeItIsTaken(t *testing.T) {
	records := []stream.Record{
		{Body: []byte("a")},
		{Body: []byte("b"), Headers: []stream.Header{{Name: "name", Value: "value"}, {Name: strings.Repeat("n", 100)}}},
		{Body: []byte("c"), Headers: []stream.Header{{Name: "name", Value: "value"}}},
	}
	refusal := errors.New("no memory")
	for name, format := range appendFormats {
		t.Run(name, func(t *testing.T) {
			batch := format.encode(nil, records)
			var asked []int64
			got, err := format.decode(batch, func(n int64) error { asked = append(asked, n); return nil })
			require.NoError(t, err)
			assert.Equal(t, records, got)
			require.Len(t, asked, 1)
			assert.GreaterOrEqual(t, asked[0], stream.MemoryOf(records)-3, "all but the bodies, which are shared")

			_, err = format.decode(batch, func(int64) error { return refusal })
			assert.ErrorIs(t, err, refusal)
		})
	}
}
