package loadgen

import (
	"context"
	"math"
	"sync"
	"time"
)

const (
	// Readers get as long as deliverQuiet without a record, and deliverWait at
	// most, to receive what was appended last. deliverLook is how often that is
	// looked at.
	deliverQuiet  = 2 * time.Second
	deliverWait   = 30 * time.Second
	deliverLook   = 10 * time.Millisecond
	progressEvery = 250 * time.Millisecond
)

// Run creates the streams, puts the load on them, deletes them and reports. A
// context that ends stops the load early; what was measured until then is
// reported without error. An error means that there is no report: a setting is
// out of range, or the server cannot be used.
func Run(ctx context.Context, c Config) (*Report, error) {
	s, err := Open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Delete(ctx)
	return s.Run(ctx)
}

// Run puts the load on the session's streams and reports, as [Run] does.
func (s *Session) Run(ctx context.Context) (*Report, error) {
	config := s.config
	l := &load{config: config, target: s.target, began: time.Now(), appends: newMeter(), delivered: newMeter()}
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

// awaitDelivery waits until the readers have everything, or nothing more seems to
// come.
func (l *load) awaitDelivery(ctx context.Context) {
	if l.config.Readers == 0 {
		return
	}
	everything := int64(math.MaxInt64) // unknown, unless each stream has as many readers
	if each, rest := l.config.Readers/l.config.Streams, l.config.Readers%l.config.Streams; rest == 0 {
		everything = l.appends.count.Load() * int64(l.config.Batch) * int64(each)
	}
	began := time.Now()
	for before, since := int64(-1), began; ctx.Err() == nil && time.Since(began) < deliverWait; sleep(ctx, deliverLook) {
		switch now := l.delivered.count.Load(); {
		case now >= everything:
			return
		case now != before:
			before, since = now, time.Now()
		case time.Since(since) >= deliverQuiet:
			return
		}
	}
}
