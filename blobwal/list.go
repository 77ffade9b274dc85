package blobwal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"gocloud.dev/blob"
)

// maxPage is how many keys a page of a listing has at most: what the services
// give in one answer.
const maxPage = 1000

// Listed is one object of a listing.
type Listed struct {
	Key      string
	Size     uint64 // bytes
	Modified time.Time
	// Segment is the segment that lies under the key, when IsSegment; else the
	// key is none that this package ever wrote a segment to.
	Segment   SegmentID
	IsSegment bool
}

// SegmentPage is a part of a listing.
type SegmentPage struct {
	Objects []Listed
	// Next asks for the page after this one; nil when this is the last. It is the
	// bucket's, good for the same prefix, and may not outlive the process.
	Next []byte
}

// ListSegmentPage lists up to limit objects, 1 to 1000 of them, under a prefix
// (see [LogPrefix], [NodePrefix] and [EpochPrefix]), from the beginning when
// token is nil. A page may be empty and not be the last.
//
// Objects come in the order of their keys, as far as the bucket keeps it. An
// object that was there before the listing began and was not deleted meanwhile
// is listed if the bucket lists strongly consistently; one that was put or
// deleted meanwhile may be listed or not.
func ListSegmentPage(ctx context.Context, bucket *blob.Bucket, prefix string, token []byte, limit int) (*SegmentPage, error) {
	if limit < 1 || limit > maxPage {
		return nil, fmt.Errorf("list %s: a page has 1 to %d objects, not %d", prefix, maxPage, limit)
	}
	if token == nil {
		token = blob.FirstPageToken
	}
	objects, next, err := bucket.ListPage(ctx, token, limit, &blob.ListOptions{Prefix: prefix})
	switch {
	case errors.Is(err, io.EOF): // a token of the last page
		return &SegmentPage{}, nil
	case err != nil:
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	page := &SegmentPage{Objects: make([]Listed, 0, len(objects)), Next: next}
	for _, o := range objects {
		if !o.IsDir {
			page.Objects = append(page.Objects, listed(o))
		}
	}
	if len(next) == 0 {
		page.Next = nil
	}
	return page, nil
}

func listed(o *blob.ListObject) Listed {
	out := Listed{Key: o.Key, Size: uint64(max(o.Size, 0)), Modified: o.ModTime}
	if _, id, err := ParseKey(o.Key); err == nil {
		out.Segment, out.IsSegment = id, true
	}
	return out
}

// ListSegments is all objects under a prefix, as [ListSegmentPage] lists them,
// one page of 1000 in memory at a time. After an error it ends.
func ListSegments(ctx context.Context, bucket *blob.Bucket, prefix string) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		for token := []byte(nil); ; {
			page, err := ListSegmentPage(ctx, bucket, prefix, token, maxPage)
			if err != nil {
				yield(Listed{}, err)
				return
			}
			for _, o := range page.Objects {
				if !yield(o, nil) {
					return
				}
			}
			if token = page.Next; token == nil {
				return
			}
		}
	}
}
