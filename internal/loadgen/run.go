package loadgen

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

const (
	// setupWorkers create and delete streams at the same time.
	setupWorkers = 32
	// deleteTimeout bounds cleaning up.
	deleteTimeout = 2 * time.Minute
	// Readers get as long as deliverQuiet without a record, and deliverWait at
	// most, to receive what was appended last.
	deliverQuiet  = 500 * time.Millisecond
	deliverWait   = 5 * time.Second
	progressEvery = 250 * time.Millisecond
)

// Run creates the streams, puts the load on them, deletes them and reports. A
// context that ends stops the load early; what was measured until then is
// reported without error. An error means that there is no report: a setting is
// out of range, or the server cannot be used.
func Run(ctx context.Context, c Config) (*Report, error) {
	config := c.withDefaults()
	u, err := config.validate()
	if err != nil {
		return nil, err
	}
	server, err := client.New(config.Endpoint, client.Options{Protocol: config.Protocol})
	if err != nil {
		return nil, err
	}
	defer server.CloseIdleConnections()
	l := &load{config: config, target: newTarget(config, u), began: time.Now(), appends: newMeter(), delivered: newMeter()}
	defer l.deleteStreams(context.WithoutCancel(ctx), server)
	if err := l.createStreams(ctx, server); err != nil {
		return nil, err
	}
	stopReaders := l.startReaders(ctx)
	elapsed := l.runWriters(ctx)
	l.awaitDelivery(ctx)
	stopReaders()
	report := l.report(elapsed)
	if config.Baseline != "" && ctx.Err() == nil {
		baseline, err := measureBaseline(ctx, config.Baseline, len(l.target.body), min(config.Duration, maxBaseline))
		if err != nil {
			return nil, err
		}
		report.compare(baseline)
	}
	return report, nil
}

func (l *load) eachStream(ctx context.Context, do func(ctx context.Context, name stream.Name) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(setupWorkers)
	for i := range l.config.Streams {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, l.target.name(i)) })
	}
	return group.Wait()
}

func (l *load) createStreams(ctx context.Context, c *client.Client) error {
	err := l.eachStream(ctx, func(ctx context.Context, name stream.Name) error {
		_, err := c.Create(ctx, name, client.CreateRequest{Config: stream.Config{ContentType: l.target.contentType}})
		return err
	})
	if err != nil {
		return fmt.Errorf("create the streams of the load: %w", err)
	}
	return ctx.Err()
}

// deleteStreams removes what createStreams may have made. What cannot be
// removed stays: the measurement is worth more than the error.
func (l *load) deleteStreams(ctx context.Context, c *client.Client) {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	_ = l.eachStream(ctx, func(ctx context.Context, name stream.Name) error {
		err := c.Delete(ctx, name)
		if stream.CodeOf(err) == stream.CodeUnavailable {
			return err // no use in asking for the others
		}
		return nil
	})
}

// startReaders returns when every live reader is at its stream's tail. The
// function it returns ends them.
func (l *load) startReaders(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running, attaching sync.WaitGroup
	for reader := range l.config.Readers {
		attaching.Add(1)
		attached := sync.OnceFunc(attaching.Done)
		running.Go(func() { l.follow(ctx, reader, attached) })
	}
	attaching.Wait()
	return func() {
		cancel()
		running.Wait()
	}
}

// runWriters puts the load on and returns how long it took.
func (l *load) runWriters(ctx context.Context) time.Duration {
	l.start = time.Now()
	l.until = l.start.Add(l.config.Duration)
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() { l.tell(done) })
	var writing sync.WaitGroup
	for worker := range l.config.Connections {
		writing.Go(func() { l.write(ctx, worker) })
	}
	writing.Wait()
	elapsed := time.Since(l.start)
	close(done)
	telling.Wait()
	return elapsed
}

// tell reports progress until done is closed.
func (l *load) tell(done <-chan struct{}) {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			l.config.Progress(Progress{
				Elapsed: time.Since(l.start), Duration: l.config.Duration,
				Appends: l.appends.count.Load(), Delivered: l.delivered.count.Load(),
			})
		}
	}
}

// awaitDelivery waits until nothing more seems to come.
func (l *load) awaitDelivery(ctx context.Context) {
	if l.config.Readers == 0 {
		return
	}
	deadline := time.Now().Add(deliverWait)
	for before := int64(-1); time.Now().Before(deadline) && ctx.Err() == nil; {
		now := l.delivered.count.Load()
		if now == before {
			return
		}
		before = now
		sleep(ctx, deliverQuiet)
	}
}
