package blobwal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	last := infos[len(infos)-1]
	start, end := infos[0].Position, last.Position+uint64(last.Length)
	r, err := openRange(ctx, bucket, key, start, end-start)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	buffer := rangeBuffers.Get().(*[rangeBuffer]byte)
	defer rangeBuffers.Put(buffer)
	n, _ := io.ReadFull(r, buffer[:min(end-start, rangeBuffer)]) // what failed fails again below
	source := io.MultiReader(bytes.NewReader(buffer[:n]), r)
	blocks = make([]*Block, 0, len(infos))
	for _, info := range infos {
		data := make([]byte, info.Length)
		if err := fill(source, key, info.Position, data); err != nil {
			return blocks, err
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
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &ObjectError{Key: key, Fault: FaultTruncated, Detail: fmt.Sprintf(
			"%d bytes were expected at %d, and %d came", len(p), position, n)}
	default:
		return fmt.Errorf("read %d bytes at %d of %s: %w", len(p), position, key, err)
	}
}
