package blobwal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// tailBytes is how much of an object's end is read at first: the index of 3,200
// blocks, and the whole of a small object.
const tailBytes = 64 << 10

// ReadIndex reads and checks the index of the segment under key, which has this
// size, in one ranged get, or two when the index is large. It checks that the
// segment is the one that the key names. The error is an [*ObjectError] when
// the object is not what it must be; any other error may pass.
func ReadIndex(ctx context.Context, bucket *blob.Bucket, key string, size uint64) (*Index, error) {
	tail, err := readTail(ctx, bucket, key, size)
	if err != nil {
		return nil, err
	}
	f, err := parseFooter(tail, size)
	if err != nil {
		return nil, WithKey(key, err)
	}
	if need := uint64(f.length) + footerBytes; need > uint64(len(tail)) {
		head := make([]byte, need-uint64(len(tail)), need)
		if err := readRange(ctx, bucket, key, f.position, head); err != nil {
			return nil, err
		}
		tail = append(head, tail...)
	}
	end := len(tail) - footerBytes
	index, err := parseIndex(tail[end-int(f.length):end], f)
	if err != nil {
		return nil, WithKey(key, err)
	}
	if err := checkKey(key, index); err != nil {
		return nil, err
	}
	return index, nil
}

func readTail(ctx context.Context, bucket *blob.Bucket, key string, size uint64) ([]byte, error) {
	if err := checkSize(key, size); err != nil {
		return nil, err
	}
	tail := make([]byte, min(size, tailBytes))
	return tail, readRange(ctx, bucket, key, size-uint64(len(tail)), tail)
}

func checkSize(key string, size uint64) error {
	if size < minObjectBytes || size > MaxObjectBytes {
		return &ObjectError{Key: key, Fault: FaultFormat, Detail: fmt.Sprintf(
			"its size is said to be %d bytes; segments have %d to %d", size, minObjectBytes, MaxObjectBytes)}
	}
	return nil
}

// checkKey refuses an object that lies under another segment's key.
func checkKey(key string, index *Index) error {
	if own := Key(index.Identity.Cluster, index.ID()); own != key {
		return &ObjectError{Key: key, Fault: FaultForeign, Detail: "it holds the segment of key " + own}
	}
	return nil
}

// ReadObject reads the whole segment under key, which has this size, with one
// get, and checks all but its blocks. Errors are as in [ReadIndex].
func ReadObject(ctx context.Context, bucket *blob.Bucket, key string, size uint64) ([]byte, *Index, error) {
	if err := checkSize(key, size); err != nil {
		return nil, nil, err
	}
	object := make([]byte, size)
	if err := readRange(ctx, bucket, key, 0, object); err != nil {
		return nil, nil, err
	}
	index, err := ParseObject(object)
	if err != nil {
		return nil, nil, WithKey(key, err)
	}
	if err := checkKey(key, index); err != nil {
		return nil, nil, err
	}
	return object, index, nil
}

// rangeBuffer is how much of a range is read at once, before it is cut into blocks:
// one large read costs less than many, and lets a disk run at its full speed.
const rangeBuffer = 1 << 20

var rangeBuffers = sync.Pool{New: func() any { return new([rangeBuffer]byte) }}

// ReadBlocks reads blocks [from, to) of a segment with one ranged get and
// decodes them. Each has memory of its own. On an error the blocks before the
// one that is wrong are returned with it. Errors are as in [ReadIndex].
func ReadBlocks(ctx context.Context, bucket *blob.Bucket, key string, index *Index, from, to int) (blocks []*Block, err error) {
	infos := index.Blocks[from:to]
	if len(infos) == 0 {
		return nil, nil
	}
	r, err := openRange(ctx, bucket, key, infos[0].Position, spanOf(infos))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	buffer := rangeBuffers.Get().(*[rangeBuffer]byte)
	defer rangeBuffers.Put(buffer)
	blocks = make([]*Block, 0, len(infos))
	for len(infos) > 0 {
		n := 1 // blocks that are read at once
		for n < len(infos) && spanOf(infos[:n+1]) <= rangeBuffer {
			n++
		}
		if blocks, err = readTogether(r, key, infos[:n], buffer[:], blocks); err != nil {
			return blocks, err
		}
		infos = infos[n:]
	}
	return blocks, nil
}

// spanOf is how many bytes blocks take that follow each other.
func spanOf(infos []BlockInfo) uint64 {
	last := &infos[len(infos)-1]
	return last.Position + uint64(last.Length) - infos[0].Position
}

// readTogether reads blocks that together fit the buffer, or a single one, and adds
// those before the one that is wrong.
func readTogether(r io.Reader, key string, infos []BlockInfo, buffer []byte, blocks []*Block) ([]*Block, error) {
	start, length := infos[0].Position, spanOf(infos)
	own := length > uint64(len(buffer)) // a single block, in memory of its own at once
	if own {
		buffer = make([]byte, length)
	}
	n, err := io.ReadFull(r, buffer[:length])
	for _, info := range infos {
		at := info.Position - start
		if end := at + uint64(info.Length); end > uint64(n) {
			return blocks, shortRead(key, info.Position, int(info.Length), max(0, n-int(at)), err)
		}
		data := buffer[at:][:info.Length:info.Length]
		if !own {
			data = slices.Clone(data)
		}
		block, err := DecodeBlock(info, data)
		if err != nil {
			return blocks, WithKey(key, err)
		}
		blocks = append(blocks, block)
	}
	return blocks, nil
}

// readRange fills p with the object's bytes from a position on.
func readRange(ctx context.Context, bucket *blob.Bucket, key string, position uint64, p []byte) (err error) {
	r, err := openRange(ctx, bucket, key, position, uint64(len(p)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return fill(r, key, position, p)
}

func openRange(ctx context.Context, bucket *blob.Bucket, key string, position, length uint64) (*blob.Reader, error) {
	r, err := bucket.NewRangeReader(ctx, key, int64(position), int64(length), nil)
	switch {
	case err == nil:
		return r, nil
	case gcerrors.Code(err) == gcerrors.NotFound:
		return nil, &ObjectError{Key: key, Fault: FaultMissing, Detail: "the bucket does not have it", cause: err}
	case ctx.Err() == nil && isShorter(ctx, bucket, key, position+length):
		return nil, &ObjectError{Key: key, Fault: FaultTruncated, Detail: fmt.Sprintf("it ends before byte %d", position+length), cause: err}
	default:
		return nil, fmt.Errorf("read %d bytes at %d of %s: %w", length, position, key, err)
	}
}

// isShorter asks for the size of an object whose range could not be read: some
// drivers answer a range beyond the end with an error that says nothing.
func isShorter(ctx context.Context, bucket *blob.Bucket, key string, end uint64) bool {
	attributes, err := bucket.Attributes(ctx, key)
	return err == nil && uint64(attributes.Size) < end
}

func fill(r io.Reader, key string, position uint64, p []byte) error {
	n, err := io.ReadFull(r, p)
	if err == nil {
		return nil
	}
	return shortRead(key, position, len(p), n, err)
}

// shortRead says that of so many bytes at a position only n came.
func shortRead(key string, position uint64, expected, n int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &ObjectError{Key: key, Fault: FaultTruncated, Detail: fmt.Sprintf(
			"%d bytes were expected at %d, and %d came", expected, position, n)}
	}
	return fmt.Errorf("read %d bytes at %d of %s: %w", expected, position, key, err)
}
