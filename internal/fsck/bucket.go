package fsck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// list lists the objects under a prefix, one page in memory at a time. With a
// delimiter what lies deeper is one folder. It ends with the first error.
func list(ctx context.Context, bucket *blob.Bucket, prefix, delimiter string) iter.Seq2[*blob.ListObject, error] {
	return func(yield func(*blob.ListObject, error) bool) {
		objects := bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: delimiter})
		for {
			o, err := objects.Next(ctx)
			if err == io.EOF { //nolint:errorlint // the iterator's documented end
				return
			}
			if err != nil {
				err = fmt.Errorf("list %q in the bucket: %w", prefix, err)
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// readAtMost reads an object, and of a larger one the beginning. One that is not
// there is nil.
func readAtMost(ctx context.Context, bucket *blob.Bucket, key string, most int64) (p []byte, err error) {
	r, err := bucket.NewReader(ctx, key, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if p, err = io.ReadAll(io.LimitReader(r, most)); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return p, nil
}
