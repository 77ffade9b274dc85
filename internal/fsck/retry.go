package fsck

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica/archive"
)

// tries is how often a call is made that fails for a reason that may pass.
const tries = 4

// retry makes a call until it succeeds, its error says that it never will, or it
// was made so often.
func retry[T any](ctx context.Context, call func() (T, error)) (T, error) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval = 100 * time.Millisecond
	value, err := backoff.Retry(ctx, func() (T, error) {
		value, err := call()
		if err != nil && final(err) {
			err = backoff.Permanent(err)
		}
		return value, err
	}, backoff.WithMaxTries(tries), backoff.WithBackOff(pauses))
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return value, err
}

// final tells whether a call that failed so would fail so again.
func final(err error) bool {
	var object *blobwal.ObjectError
	for _, known := range []error{commands.ErrDamaged, commands.ErrTruncated, archive.ErrDamaged, archive.ErrVersion, context.Canceled} {
		if errors.Is(err, known) {
			return true
		}
	}
	return errors.As(err, &object) || gcerrors.Code(err) == gcerrors.NotFound
}

// asObjectError is the fault of a segment's object behind an error, or nil.
func asObjectError(err error) *blobwal.ObjectError {
	var object *blobwal.ObjectError
	if errors.As(err, &object) {
		return object
	}
	return nil
}
