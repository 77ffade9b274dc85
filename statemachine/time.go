package statemachine

import (
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// MaxActiveStep bounds how much one entry adds to active time, in
// milliseconds: an hour in which nothing could be proposed expires nothing.
const MaxActiveStep = 30_000

// advance moves both clocks to an entry's. Log time is the earlier of the
// database's and the proposer's clock, so that neither alone can run ahead, and
// never goes back. Active time counts what passed between entries, at most 30 s
// an entry.
func (s *State) advance(e *commands.Entry) {
	previous := s.logTime
	s.logTime = max(previous, min(e.DatabaseTime, e.Clock))
	if s.index > 0 {
		// previous is never negative, so the difference cannot overflow.
		s.activeTime += min(MaxActiveStep, int64(s.logTime-previous))
	}
}

// due tells whether an expiry has passed. The limit is seconds for
// ExpiresIdle, a log time in milliseconds for ExpiresAt.
func due(kind stream.ExpiryKind, limit, touched, active int64, now stream.Time) bool {
	switch kind {
	case stream.ExpiresIdle:
		return active-touched >= limit*1000
	case stream.ExpiresAt:
		return int64(now) >= limit
	default:
		return false
	}
}

// due tells whether the row's stream counts as absent in the current entry.
func (s *State) due(r *row) bool { return r.due(s.activeTime, s.logTime) }

// due tells whether the stream counts as absent at an active time and a log
// time: it is past its deadline, or deleted and kept by no fork.
func (r *row) due(active int64, now stream.Time) bool {
	return r.orphaned() || due(r.expiry, r.limit, r.touched, active, now)
}
