package main

import (
	"context"
	"fmt"
	"net/url"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/picomq/picomq/blobwal/filebucket"
)

// openBucket opens the bucket that --storage names.
func openBucket(ctx context.Context, storage string) (*blob.Bucket, error) {
	u, err := url.Parse(storage)
	if err != nil {
		return nil, fmt.Errorf("--storage %q: %w", storage, err)
	}
	switch u.Scheme {
	case "file":
		bucket, err := filebucket.OpenURL(ctx, u)
		if err != nil {
			return nil, fmt.Errorf("--storage %s: %w", storage, err)
		}
		return spoil(bucket)
	case "mem":
		return spoil(memblob.OpenBucket(nil))
	default:
		return nil, fmt.Errorf("--storage %s: this release keeps records in file:// and mem:// buckets", storage)
	}
}
