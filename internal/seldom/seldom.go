// Package seldom keeps warnings that repeat themselves from flooding a log: while a
// database is away, what is tried each second would say so each second.
//
// A warning of a kind is logged at once, and then at most once in [Every]; the next
// that is logged says how many were left out. What is left out and never followed by
// another of its kind is not told. Kinds are chosen by the program, not by requests:
// there are few. An [Outage] is told when it ends, too.
package seldom

import (
	"log/slog"
	"sync"
	"time"
)

// Every is how often a warning of one kind is logged at most.
const Every = 10 * time.Second

// Warnings logs warnings. It is safe for concurrent use.
type Warnings struct {
	logger *slog.Logger
	now    func() time.Time

	mu    sync.Mutex
	kinds map[string]*kind
}

type kind struct {
	logged  time.Time // when the last was
	leftOut int       // since then
}

// New logs to a logger, by a clock; nil: time.Now.
func New(logger *slog.Logger, now func() time.Time) *Warnings {
	if now == nil {
		now = time.Now
	}
	return &Warnings{logger: logger, now: now, kinds: make(map[string]*kind)}
}

// Warn logs a warning unless one of its kind was logged shortly before, and tells
// whether it did.
func (w *Warnings) Warn(of, message string, args ...any) bool {
	leftOut, due := w.due(of)
	if !due {
		return false
	}
	if leftOut > 0 {
		args = append(args[:len(args):len(args)], "left_out", leftOut)
	}
	w.logger.Warn(message, args...)
	return true
}

// due notes a warning.
func (w *Warnings) due(of string) (leftOut int, due bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, now := w.kinds[of], w.now()
	switch {
	case k == nil:
		w.kinds[of] = &kind{logged: now}
		return 0, true
	case now.Sub(k.logged) < Every:
		k.leftOut++
		return 0, false
	}
	leftOut = k.leftOut
	*k = kind{logged: now}
	return leftOut, true
}
