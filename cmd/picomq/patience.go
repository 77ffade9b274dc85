package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/internal/seldom"
	"github.com/picomq/picomq/sqllog"
)

// startPatience is how long each step of a start waits for a bucket or a log that
// does not answer, from its first failure on.
const startPatience = 30 * time.Second

// patiently takes a step of the start. What fails for a reason that may pass is
// tried again until the patience is over or ctx ends, and meanwhile the node logs what
// it waits for. A step must leave nothing behind that its repetition would trip over.
func (n *node) patiently(ctx context.Context, step func() error) error {
	outage := seldom.NewOutage(n.logger, nil, "the start waits: bucket or log failed; trying again", "the start goes on")
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = 100*time.Millisecond, time.Second
	var since time.Time
	for {
		err := step()
		switch {
		case err == nil:
			outage.Worked()
			return nil
		case !mayPass(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= startPatience:
			return fmt.Errorf("waited %v: %w", startPatience, err)
		}
		outage.Failed("for", startPatience.String(), "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err() // why it waited was logged
		case <-time.After(pauses.NextBackOff()):
		}
	}
}

// mayPass tells whether what failed so may succeed by itself before long, so that
// nobody has to change anything: neither a setting, nor a right, nor a bucket.
func mayPass(err error) bool {
	if !ofBucket(err) {
		return sqllog.MayPass(err)
	}
	switch gcerrors.Code(err) {
	case gcerrors.Unknown, gcerrors.Internal, gcerrors.ResourceExhausted, gcerrors.DeadlineExceeded:
		return true
	default:
		return false
	}
}

// ofBucket tells whether an error comes from a bucket's driver. gcerrors answers
// with the driver's code where there is one, and looks for the context's errors
// only in others.
func ofBucket(err error) bool {
	return gcerrors.Code(errors.Join(err, context.Canceled)) != gcerrors.Canceled
}
