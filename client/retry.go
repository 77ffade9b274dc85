package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/picomq/picomq/stream"
)

// Pauses between tries.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// repeatable says what a request that may have been carried out already does
// when it is sent again.
type repeatable bool

const (
	changesAgain  repeatable = false
	changesNoMore repeatable = true
)

// after tells whether the request may be sent again after this error.
func (again repeatable) after(err error) bool {
	switch stream.CodeOf(err) {
	case stream.CodeOverloaded:
		return true
	case stream.CodeUnavailable, stream.CodeOutcomeUnknown:
		return bool(again)
	default:
		return false
	}
}

// do carries a request out, with more tries where its kind allows them.
func (c *Client) do(ctx context.Context, r *request, again repeatable) (*answer, error) {
	pauses := newPauses()
	deadline := time.Now().Add(c.options.RetryFor)
	for {
		a, err := c.try(ctx, r)
		if err == nil || !again.after(err) {
			return a, err
		}
		pause := pauses.next(err)
		if time.Now().Add(pause).After(deadline) {
			return nil, err
		}
		if err := c.pause(ctx, err, pause); err != nil {
			return nil, fmt.Errorf("%v: %w", r, err)
		}
	}
}

// pause waits before the next try. The error is the context's.
func (c *Client) pause(ctx context.Context, cause error, pause time.Duration) error {
	c.options.Notify(cause, pause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pauses is a growing, randomised series of pauses.
type pauses struct{ series *backoff.ExponentialBackOff }

func newPauses() pauses {
	series := backoff.NewExponentialBackOff()
	series.InitialInterval = firstPause
	series.Multiplier = 2
	series.MaxInterval = longestPause
	return pauses{series}
}

// next is the pause after this error: what it asks for, if it does.
func (p pauses) next(err error) time.Duration {
	pause := p.series.NextBackOff()
	var refused *stream.Error
	if errors.As(err, &refused) && refused.RetryAfter > 0 {
		return refused.RetryAfter
	}
	return pause
}

// reset starts the series over, after a success.
func (p pauses) reset() { p.series.Reset() }
