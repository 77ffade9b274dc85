package loadgen

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// Pauses of a connection after what went wrong.
const (
	pauseAfterRefusal = 20 * time.Millisecond
	pauseAfterBreak   = 100 * time.Millisecond
)

// load is one run while it runs.
type load struct {
	config *Config
	target *target
	began  time.Time // zero of the clock that marks carry
	start  time.Time // of the load
	until  time.Time

	scheduled atomic.Int64 // appends, with a rate
	appends   *meter       // latencies of those that succeeded
	delivered *meter
	failed    failures
	broken    failures // of live readers
}

// write appends on one connection until the time is over.
func (l *load) write(ctx context.Context, worker int) {
	request := l.target.newAppendRequest()
	c := &redialed{target: l.target}
	defer c.close()
	for n := worker; ; n += l.config.Connections {
		due, ok := l.waitForTurn(ctx)
		if !ok {
			return
		}
		if err := c.dial(ctx); err != nil {
			l.connectionFailed(ctx, err)
			continue
		}
		if due.IsZero() {
			due = time.Now()
		}
		l.append(ctx, c, request, worker, n%l.config.Streams, due)
	}
}

// append makes one append and counts it.
func (l *load) append(ctx context.Context, c *redialed, request *appendRequest, worker, stream int, due time.Time) {
	request.make(l.target, stream)
	sent := time.Since(l.began)
	for m := range request.marks {
		stamp(request.digits(m), sent)
	}
	status, err := c.exchange(ctx, request.dst)
	switch {
	case err != nil:
		l.connectionFailed(ctx, err)
	case status < 200 || status > 299:
		l.failed.status(status)
		sleep(ctx, pauseAfterRefusal)
	default:
		l.appends.record(worker, time.Since(due))
	}
}

func (l *load) connectionFailed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		l.failed.connection(err)
		sleep(ctx, pauseAfterBreak)
	}
}

// waitForTurn waits until the next append is due; due is zero without a rate.
// It reports false when the time is over.
func (l *load) waitForTurn(ctx context.Context) (due time.Time, ok bool) {
	if l.config.Rate > 0 {
		n := l.scheduled.Add(1) - 1
		due = l.start.Add(time.Duration(float64(n) / l.config.Rate * float64(time.Second)))
		if due.Before(l.until) {
			sleep(ctx, time.Until(due))
		}
	} else if !time.Now().Before(l.until) {
		return due, false
	}
	return due, ctx.Err() == nil && due.Before(l.until)
}

// follow reads one stream's events until ctx ends. It calls attached once, when
// its first answer has begun or failed.
func (l *load) follow(ctx context.Context, reader int, attached func()) {
	request := l.target.liveRequest(reader % l.config.Streams)
	for ctx.Err() == nil {
		if err := l.followOnce(ctx, reader, request, attached); err != nil && ctx.Err() == nil {
			l.broken.connection(err)
			sleep(ctx, pauseAfterBreak)
		}
		attached()
	}
	attached()
}

func (l *load) followOnce(ctx context.Context, reader int, request []byte, attached func()) error {
	c, release, err := dial(ctx, l.target.url)
	if err != nil {
		return err
	}
	defer release()
	if err := c.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return err
	}
	if _, err := c.Write(request); err != nil {
		return err
	}
	h, err := c.readHeader()
	if err != nil {
		return err
	}
	if h.status != 200 {
		l.broken.status(h.status)
		sleep(ctx, pauseAfterBreak)
		return nil
	}
	if err := c.SetDeadline(time.Time{}); err != nil { // the stream may be silent
		return err
	}
	body := c.body(h)
	var scanner markScanner
	buffer := make([]byte, 16<<10)
	for {
		n, err := body.Read(buffer)
		now := time.Since(l.began)
		if n > 0 {
			attached() // the first event tells that the reader is at the tail
		}
		scanner.scan(buffer[:n], func(sent time.Duration) { l.delivered.record(reader, now-sent) })
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
