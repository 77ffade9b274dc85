package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blobwal/filebucket"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
)

// slowLists is how many streams are got with slow gets: at one range after the
// other, all would take minutes, and no other rate.
const slowLists = 200

// prepare brings the page cache of the machine into a condition: it has all of the
// bucket, or nothing.
func (c *catchUp) prepare(how condition) error {
	return filepath.WalkDir(filepath.Join(c.data, "bucket"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		if how.cold {
			return forget(file)
		}
		_, err = io.Copy(io.Discard, file)
		return err
	})
}

// span is bytes of an object.
type span struct {
	key            string
	offset, length int64
}

// layout is where in the bucket everything lies.
type layout struct {
	streams map[stream.ID][]span // of what appends wrote, in order
	packed  []span               // whole objects that compaction wrote
}

// asAppended is what a reader needs of each stream, range by range.
func asAppended(l *layout) [][]span {
	ids := make([]stream.ID, 0, len(l.streams))
	for id := range l.streams {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	spans := make([][]span, len(ids))
	for i, id := range ids {
		spans[i] = l.streams[id]
	}
	return spans
}

// packedWhole is all that compaction wrote, object by object, also what it wrote anew
// since: only the rate counts.
func packedWhole(l *layout) (spans [][]span) {
	for _, object := range l.packed {
		spans = append(spans, []span{object})
	}
	return spans
}

func (c *catchUp) open(delay time.Duration) (*blob.Bucket, error) {
	bucket, err := filebucket.Open(filepath.Join(c.data, "bucket"), nil)
	if err != nil || delay == 0 {
		return bucket, err
	}
	slow, _ := faultbucket.Wrap(bucket, func(op faultbucket.Op) (d faultbucket.Decision) {
		if op.Kind == faultbucket.Get {
			d.Delay = delay
		}
		return d
	})
	return slow, nil
}

// survey reads the indexes of all segments.
func (c *catchUp) survey(ctx context.Context) (_ *layout, err error) {
	bucket, err := c.open(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	var segments []blobwal.Listed
	for o, err := range blobwal.ListSegments(ctx, bucket, "") {
		if err != nil {
			return nil, err
		}
		if o.IsSegment {
			segments = append(segments, o)
		}
	}
	slices.SortFunc(segments, func(a, b blobwal.Listed) int {
		return cmp.Or(cmp.Compare(a.Segment.Epoch, b.Segment.Epoch), cmp.Compare(a.Segment.Sequence, b.Segment.Sequence))
	})
	l := &layout{streams: make(map[stream.ID][]span)}
	for _, o := range segments {
		index, err := blobwal.ReadIndex(ctx, bucket, o.Key, o.Size)
		if err != nil {
			return nil, err
		}
		if index.Packed {
			l.packed = append(l.packed, span{o.Key, 0, int64(o.Size)})
			continue
		}
		l.add(o.Key, index)
	}
	return l, nil
}

// add adds the blocks of a segment, neighbours of one stream as one range.
func (l *layout) add(key string, index *blobwal.Index) {
	for _, b := range index.Blocks {
		spans := l.streams[b.Stream]
		if n := len(spans); n > 0 && spans[n-1].key == key && spans[n-1].offset+spans[n-1].length == int64(b.Position) {
			spans[n-1].length += int64(b.Length)
			continue
		}
		l.streams[b.Stream] = append(spans, span{key, int64(b.Position), int64(b.Length)})
	}
}

// rawPass is the rate at which as many loops as there are clients get ranges
// from the bucket, those of one list one after the other.
func (c *catchUp) rawPass(ctx context.Context, how condition, lists [][]span) (rate float64, err error) {
	bucket, err := c.open(how.delay)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	if err := c.prepare(how); err != nil {
		return 0, err
	}
	if how.delay > 0 && len(lists) > slowLists {
		lists = lists[:slowLists]
	}
	bytes := int64(0)
	for _, list := range lists {
		for _, s := range list {
			bytes += s.length
		}
	}
	began := time.Now()
	buffers := make(chan []byte, catchUpClients)
	for range catchUpClients {
		buffers <- nil
	}
	err = eachOf(ctx, catchUpClients, len(lists), func(ctx context.Context, i int) (err error) {
		buffer := <-buffers
		defer func() { buffers <- buffer }()
		for _, s := range lists[i] {
			if buffer, err = get(ctx, bucket, s, buffer); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(bytes) / megabyte / time.Since(began).Seconds(), err
}

// get reads a range into a buffer, which it returns, perhaps another.
func get(ctx context.Context, bucket *blob.Bucket, s span, buffer []byte) (_ []byte, err error) {
	if int64(cap(buffer)) < s.length {
		buffer = make([]byte, s.length)
	}
	r, err := bucket.NewRangeReader(ctx, s.key, s.offset, s.length, nil)
	if err != nil {
		return buffer, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	_, err = io.ReadFull(r, buffer[:s.length])
	return buffer, err
}
