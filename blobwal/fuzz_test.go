package blobwal

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

// FuzzParseObject feeds objects whose checksums were made to match, so that the
// fuzzer gets past them: parsing never panics, and what it accepts adds up.
func FuzzParseObject(f *testing.F) {
	for _, object := range damaged(f) {
		f.Add(object)
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		if len(object) >= minObjectBytes {
			resum(object, len(object))
		}
		index, err := ParseObject(object)
		if err != nil {
			return
		}
		require.LessOrEqual(t, entryBytes*len(index.Blocks), len(object))
		require.GreaterOrEqual(t, Footprint(object), len(object))
		position, first := uint64(headerBytes), uint32(0)
		for _, info := range index.Blocks {
			require.Equal(t, position, info.Position)
			require.Equal(t, first, info.First)
			position += uint64(info.Length)
			first += info.Count
		}
		require.Equal(t, first, index.Records)
		require.LessOrEqual(t, position, uint64(len(object)))
	})
}

// FuzzDecodeBlock feeds blocks whose checksum matches: decoding never panics,
// allocates in proportion to the bytes, and what it accepts can be read.
func FuzzDecodeBlock(f *testing.F) {
	for _, object := range damaged(f) {
		index, err := ParseObject(object)
		require.NoError(f, err)
		for _, info := range index.Blocks {
			f.Add(object[info.Position : info.Position+uint64(info.Length)])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < blockBytes {
			return
		}
		info := BlockInfo{
			Packed: data[12]&flagPacked != 0,
			Stream: stream.ID(binary.BigEndian.Uint64(data)), Count: binary.BigEndian.Uint32(data[8:]),
			Length: uint32(len(data)), CRC: checksum(data),
		}
		block, err := DecodeBlock(info, data)
		if err != nil {
			return
		}
		require.LessOrEqual(t, block.Size(), 5*len(data)/2+256)
		require.LessOrEqual(t, walk(block), len(data))
		require.Equal(t, info.Count, uint32(block.Len()))
	})
}
