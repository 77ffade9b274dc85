package replica

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/internal/seldom"
)

// outage is a time in which the log does not do something, for whoever reads what
// the node logs: that it began, now and then that it goes on, and when it ended.
type outage struct {
	logger   *slog.Logger
	warnings *seldom.Warnings
	during   string      // logged while it lasts
	after    string      // logged when it is over
	away     atomic.Bool // so that a log which works takes no lock

	mu    sync.Mutex
	since time.Duration // when a call failed first, since the replica's start
	told  bool          // a warning was logged meanwhile
}

// watchLog makes the outages, none of which is.
func (r *Replica) watchLog() {
	for o, says := range map[*outage][2]string{
		&r.silence: {"the log does not answer; trying again", "the log answers again"},
		&r.refusal: {"an insert into the log failed; trying again", "the log takes rows again"},
	} {
		o.logger, o.warnings = r.cfg.Logger, seldom.New(r.cfg.Logger, nil)
		o.during, o.after = says[0], says[1]
	}
}

// failed notes a call that did not work, at a time since the replica's start.
func (o *outage) failed(now time.Duration, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.away.Load() {
		o.since, o.told = now, false
		o.away.Store(true)
	}
	if o.warnings.Warn(o.during, o.during, args...) {
		o.told = true
	}
}

// worked notes one that did.
func (o *outage) worked(now time.Duration) {
	if !o.away.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away.Swap(false) && o.told {
		o.logger.Info(o.after, "away", (now - o.since).Round(time.Millisecond).String())
	}
}
