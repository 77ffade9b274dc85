package blobwal

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
)

// damaged are the golden segments that are small enough to spoil at every byte.
func damaged(t testing.TB) [][]byte {
	var out [][]byte
	for _, name := range []string{"one-record", "empty-body", "headers", "mixed", "packed-one", "packed"} {
		out = append(out, readGolden(t, name, nil))
	}
	return out
}

func TestEveryFlippedBitIsCaught(t *testing.T) {
	for _, object := range damaged(t) {
		for i := range object {
			for bit := range 8 {
				object[i] ^= 1 << bit
				_, err := Verify(object)
				requireObjectError(t, err, "bit %d of byte %d", bit, i)
				object[i] ^= 1 << bit
			}
		}
	}
}

func TestEveryTruncationIsCaught(t *testing.T) {
	for _, object := range damaged(t) {
		for n := range object {
			_, err := Verify(object[:n:n])
			requireObjectError(t, err, "cut to %d bytes", n)
			_, err = Verify(object[n+1:])
			requireObjectError(t, err, "%d bytes gone from the front", n+1)
		}
		_, err := Verify(append(bytes.Clone(object), 0))
		requireObjectError(t, err, "a byte too many")
	}
}

func requireObjectError(t *testing.T, err error, format string, args ...any) {
	t.Helper()
	var fault *ObjectError
	require.ErrorAs(t, err, &fault, append([]any{format}, args...)...)
	require.NotEmpty(t, fault.Detail)
	require.NotContains(t, fault.Fault.String(), "fault_")
}

// TestNoFlippedByteIsServed reads spoiled objects the way a cache does, index
// first: what lies outside of what is read may be spoiled, but what comes is
// right.
func TestNoFlippedByteIsServed(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	defer func() { require.NoError(t, bucket.Close()) }()
	key := Key(someone().Cluster, someone().Segment(goldenSequence))
	for _, object := range damaged(t) {
		want := decodeAll(t, object)
		served := 0
		for i := range object {
			object[i] ^= 0x55
			overwrite(t, bucket, key, object)
			got, err := readAll(t.Context(), bucket, key, uint64(len(object)))
			if err == nil {
				served++
				require.Equal(t, want, got, "byte %d", i)
			} else {
				requireObjectError(t, err, "byte %d", i)
				require.Contains(t, err.Error(), key)
			}
			object[i] ^= 0x55
		}
		assert.Equal(t, headerBytes, served, "only the header is not needed: the index repeats it")
	}
}

func TestNoTruncatedObjectIsServed(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	defer func() { require.NoError(t, bucket.Close()) }()
	key := Key(someone().Cluster, someone().Segment(goldenSequence))
	object := readGolden(t, "mixed", nil)
	for n := range object {
		overwrite(t, bucket, key, object[:n])
		_, err := readAll(t.Context(), bucket, key, uint64(len(object)))
		requireObjectError(t, err, "cut to %d bytes", n)
		_, err = readAll(t.Context(), bucket, key, uint64(n))
		requireObjectError(t, err, "cut to %d bytes, and the size says so", n)
	}
}

func overwrite(t *testing.T, bucket *blob.Bucket, key string, object []byte) {
	t.Helper()
	require.NoError(t, bucket.Upload(t.Context(), key, bytes.NewReader(object), &blob.WriterOptions{ContentType: "application/octet-stream"}))
}

func readAll(ctx context.Context, bucket *blob.Bucket, key string, size uint64) (out []located, err error) {
	index, err := ReadIndex(ctx, bucket, key, size)
	if err != nil {
		return nil, err
	}
	blocks, err := ReadBlocks(ctx, bucket, key, index, 0, len(index.Blocks))
	for _, b := range blocks {
		out = append(out, contents(b)...)
	}
	return out, err
}

// TestChecksumsAloneAreNotTrusted gives every part bytes that match their
// checksums and make no sense.
func TestChecksumsAloneAreNotTrusted(t *testing.T) {
	good := readGolden(t, "mixed", nil)
	for i := range len(good) {
		for _, value := range []byte{0, 1, 0x7f, 0xff} {
			object := bytes.Clone(good)
			object[i] = value
			resum(object, len(good))
			index, err := ParseObject(object)
			if err != nil {
				requireObjectError(t, err, "byte %d", i)
				continue
			}
			for _, info := range index.Blocks {
				data := object[info.Position : info.Position+uint64(info.Length)]
				info.CRC = checksum(data)
				if block, err := DecodeBlock(info, data); err == nil {
					walk(block)
				}
			}
		}
	}
}

// TestLengthsMustAddUp changes one field at a time and makes every checksum
// match again.
func TestLengthsMustAddUp(t *testing.T) {
	good := readGolden(t, "mixed", nil)
	index, err := ParseObject(good)
	require.NoError(t, err)
	last := index.Blocks[len(index.Blocks)-1]
	entries := int(last.Position) + int(last.Length) + headerBytes
	foot := len(good) - footerBytes
	for name, at := range map[string]int{
		"a block's length": entries + 11, "a block's records": entries + 15, "all records": foot + 19,
		"the index's position": foot + 7, "the index's length": foot + 11,
		"the version": 9, "the header's flags": 11, "the footer's version": foot + 21, "the footer's flags": foot + 23,
	} {
		for _, delta := range []byte{1, 0xff} {
			object := bytes.Clone(good)
			object[at] += delta
			if at < headerBytes {
				object[entries-headerBytes+at] += delta
			}
			resum(object, len(object))
			_, err := Verify(object)
			requireObjectError(t, err, "%s changed by %d", name, int8(delta))
		}
	}
}

// TestBlocksMustAgreeWithTheirIndex does the same within blocks.
func TestBlocksMustAgreeWithTheirIndex(t *testing.T) {
	object := readGolden(t, "mixed", nil)
	index, err := ParseObject(object)
	require.NoError(t, err)
	comma := bytes.Index(object, []byte(`{"a":1},[1,2]`)) + 7
	var block BlockInfo
	for _, info := range index.Blocks {
		if int(info.Position) < comma && comma < int(info.Position)+int(info.Length) {
			block = info
		}
	}
	for name, at := range map[string]int{
		"another stream": 7, "more records": 11, "unknown flags": 12, "reserved": 13, "a name": 15,
		"an end": blockBytes + 3, "the last end": blockBytes + 11, "a separator": comma - int(block.Position),
	} {
		data := bytes.Clone(object[block.Position : block.Position+uint64(block.Length)])
		data[at] += 64
		info := block
		info.CRC = checksum(data)
		_, err := DecodeBlock(info, data)
		var fault *ObjectError
		require.ErrorAs(t, err, &fault, name)
		assert.Equal(t, FaultFormat, fault.Fault)
	}
}

// TestParsingCatchesAllButTheBlocks looks at no block at all.
func TestParsingCatchesAllButTheBlocks(t *testing.T) {
	object := readGolden(t, "mixed", nil)
	index, err := ParseObject(object)
	require.NoError(t, err)
	last := index.Blocks[len(index.Blocks)-1]
	for i := range object {
		object[i] ^= 0x10
		_, err := ParseObject(object)
		if i < headerBytes || i >= int(last.Position)+int(last.Length) {
			requireObjectError(t, err, "byte %d", i)
		} else {
			require.NoError(t, err, "byte %d", i)
		}
		object[i] ^= 0x10
	}
	for i := range headerBytes {
		header := bytes.Clone(object[:headerBytes])
		header[i] ^= 0x10
		err := new(Index).parseHeader(header)
		requireObjectError(t, err, "byte %d of the header", i)
	}
}

// resum makes the checksums of header, index and footer match again, where the
// footer still points to an index.
func resum(object []byte, size int) {
	put := func(at int, sum uint32) { binary.BigEndian.PutUint32(object[at:], sum) }
	foot := size - footerBytes
	put(68, checksum(object[:68]))
	position, length := binary.BigEndian.Uint64(object[foot:]), uint64(binary.BigEndian.Uint32(object[foot+8:]))
	if position < uint64(foot) && length >= headerBytes && position+length <= uint64(foot) {
		p := int(position)
		put(p+68, checksum(object[p:p+68]))
		put(foot+12, checksum(object[p:p+int(length)]))
	}
	put(foot+24, checksum(object[foot:foot+24]))
}

// walk touches everything in a block: nothing may panic.
func walk(b *Block) (bytes int) {
	run := b.Run(b.First(), b.Len())
	for i := range run.Len() {
		bytes += len(run.Body(i)) + len(run.HeadersOf(i))
	}
	return bytes
}
