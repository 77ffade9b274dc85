package blobwal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// createOnly puts an object that must not change once it exists. It returns nil
// when the object now holds exactly these bytes, whoever put them there, and an
// [*ObjectError] of [FaultForeign] when it holds others. After any other error
// it is not known whether the object exists; the call may be repeated.
func createOnly(ctx context.Context, bucket *blob.Bucket, key string, body []byte) error {
	err := bucket.Upload(ctx, key, bytes.NewReader(body), &blob.WriterOptions{
		ContentType:                 "application/octet-stream",
		DisableContentTypeDetection: true,
		IfNotExist:                  true,
		// The GCS driver allocates a buffer of this size, 16 MiB if not told.
		BufferSize: len(body) + 1,
	})
	switch {
	case err == nil:
		return nil
	case gcerrors.Code(err) != gcerrors.FailedPrecondition:
		return fmt.Errorf("put: %w", err)
	}
	// It exists. Drivers repeat requests by themselves, so this may be about our
	// own put whose answer was lost.
	return checkSame(ctx, bucket, key, body)
}

// checkSame reads an object and compares it with what it should be.
func checkSame(ctx context.Context, bucket *blob.Bucket, key string, want []byte) (err error) {
	r, err := bucket.NewReader(ctx, key, nil)
	if err != nil {
		return fmt.Errorf("read back %s, which exists: %w", key, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	foreign := &ObjectError{
		Key: key, Fault: FaultForeign,
		Detail: "it exists with other bytes than ours: another process writes under this identity, or the database was rewound or cloned",
	}
	buffer := make([]byte, min(len(want)+1, 64<<10))
	for {
		n, err := r.Read(buffer)
		if n > len(want) || !bytes.Equal(buffer[:n], want[:n]) {
			return foreign
		}
		want = want[n:]
		switch {
		case errors.Is(err, io.EOF) && len(want) > 0:
			return foreign
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read back %s, which exists: %w", key, err)
		}
	}
}

// PutPolicy bounds the upload of one object.
type PutPolicy struct {
	TryTimeout time.Duration // of one try
	Deadline   time.Duration // of all tries together
	// Failed, when set, is told of every try that failed, from 1 on.
	Failed func(try int, err error)

	hedger *hedger // nil: no try is hedged
}

// PutResult is how an upload went.
type PutResult struct {
	Tries int
	Took  time.Duration // of the try that succeeded
}

// Put writes an object that must not change once it exists. It tries again with
// growing, jittered pauses until the object holds exactly these bytes, whoever
// put them there, or holds others, which is an [*ObjectError] of [FaultForeign],
// or the policy's deadline or ctx ends it. Then the error is that of the last
// try, and the object may exist nevertheless, also later: a request may be under
// way.
func Put(ctx context.Context, bucket *blob.Bucket, key string, object []byte, policy PutPolicy) (PutResult, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.Deadline)
	defer cancel()
	var out PutResult
	var last error
	try := func() (time.Duration, error) {
		out.Tries++
		started := time.Now()
		ctx, cancel := context.WithTimeout(ctx, policy.TryTimeout)
		defer cancel()
		err := policy.hedger.put(ctx, bucket, key, object)
		if err == nil {
			return time.Since(started), nil
		}
		last = err
		if policy.Failed != nil {
			policy.Failed(out.Tries, err)
		}
		if isForeign(err) {
			return 0, backoff.Permanent(err)
		}
		return 0, err
	}
	var err error
	out.Took, err = backoff.Retry(ctx, try, backoff.WithBackOff(putBackOff()), backoff.WithMaxElapsedTime(0))
	if err != nil && last != nil {
		err = last // Retry may answer with the context's error, which says less
	}
	return out, err
}

// longestPutPause is how long a put waits at most before it is tried again, give or
// take half of it. Appends wait as long for a bucket that works again; what a bucket
// that does not gets to see is bounded by the slots of the writers.
const longestPutPause = 300 * time.Millisecond

func putBackOff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: 50 * time.Millisecond, Multiplier: 2, MaxInterval: longestPutPause, RandomizationFactor: 0.5,
	}
}

func isForeign(err error) bool {
	var fault *ObjectError
	return errors.As(err, &fault) && fault.Fault == FaultForeign
}
