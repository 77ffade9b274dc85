package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Loop is a closed loop of requests of any kind, for what [Run] does not do.
type Loop struct {
	Endpoint    string        // http or https URL of the server
	Connections int           // each sends its next request when the last is answered
	Duration    time.Duration // of the loop
	// Request writes the loop's n-th request, from 0 on, behind dst, which is
	// empty. It is called from all connections at once.
	Request func(dst []byte, n int64) []byte
}

// LoopReport is what a loop measured.
type LoopReport struct {
	Answered  int64 // all with success
	PerSecond float64
	Latency   Latency
}

// Run sends requests until the time is over. An answer that is no success, or
// none, is an error, and so is a ctx that ends early.
func (c Loop) Run(ctx context.Context) (*LoopReport, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	var sent atomic.Int64
	var dialed sync.WaitGroup
	dialed.Add(c.Connections)
	begin := make(chan struct{})
	answered := newMeter()
	group, ctx := errgroup.WithContext(ctx)
	for worker := range c.Connections {
		group.Go(func() error {
			conn, release, err := dial(ctx, u)
			dialed.Done()
			if err != nil {
				return err
			}
			defer release()
			<-begin
			until := time.Now().Add(c.Duration)
			var request []byte
			for started := time.Now(); started.Before(until); started = time.Now() {
				request = c.Request(request[:0], sent.Add(1)-1)
				if err := succeed(conn, request); err != nil {
					return errors.Join(err, ctx.Err())
				}
				answered.record(worker, time.Since(started))
			}
			return nil
		})
	}
	dialed.Wait()
	started := time.Now()
	close(begin)
	if err := group.Wait(); err != nil {
		return nil, err
	}
	n := answered.count.Load()
	return &LoopReport{Answered: n, PerSecond: float64(n) / time.Since(started).Seconds(), Latency: answered.latency()}, nil
}

// succeed makes a request that must succeed and leave the connection open.
func succeed(c *conn, request []byte) error {
	status, reusable, err := c.exchange(request)
	switch {
	case err != nil:
		return err
	case status < 200 || status > 299:
		return fmt.Errorf("the answer's status is %d", status)
	case !reusable:
		return errors.New("the server closes the connection")
	}
	return nil
}
