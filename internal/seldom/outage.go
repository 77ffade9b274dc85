package seldom

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Outage is a time in which something does not work, for whoever reads the log: a
// line when it begins, one now and then while it goes on, and one when it is over.
// It is safe for concurrent use.
type Outage struct {
	warnings *Warnings
	during   string      // logged while it lasts
	after    string      // logged when it is over
	away     atomic.Bool // so that what works takes no lock

	mu    sync.Mutex
	since time.Time // when it failed first
	told  bool      // a warning was logged meanwhile
}

// NewOutage is one that has not begun, with what is logged while it lasts and when
// it is over. A nil clock is time.Now.
func NewOutage(logger *slog.Logger, now func() time.Time, during, after string) *Outage {
	return &Outage{warnings: New(logger, now), during: during, after: after}
}

// Failed notes that it did not work.
func (o *Outage) Failed(args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.away.Load() {
		o.since, o.told = o.warnings.now(), false
		o.away.Store(true)
	}
	if o.warnings.Warn(o.during, o.during, args...) {
		o.told = true
	}
}

// Worked notes that it did. An outage of which nothing was logged ends in silence.
func (o *Outage) Worked(args ...any) {
	if !o.away.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away.Swap(false) && o.told {
		away := o.warnings.now().Sub(o.since).Round(time.Millisecond)
		o.warnings.logger.Info(o.after, append(args[:len(args):len(args)], "away", away.String())...)
	}
}
