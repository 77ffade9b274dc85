package wire

import (
	"math"
	"math/rand/v2"
	"time"
)

// Cursors number intervals of time, so that caches in front of many live
// readers collapse requests of the same interval and never serve a reader the
// same answer twice.
const (
	cursorInterval  = 20 * time.Second
	maxCursorJitter = time.Hour
	maxCursorStep   = uint64(maxCursorJitter / cursorInterval)
)

var cursorEpoch = time.Date(2024, time.October, 9, 0, 0, 0, 0, time.UTC)

// NextCursor is the cursor of an answer: the number of the interval that now
// falls in, or, when the client's cursor is not older than that, the client's
// advanced by jitter ([CursorJitter]), at least one. A client's cursor that is
// absent, no plain decimal number or too large to advance counts as none.
func NextCursor(now time.Time, client string, jitter time.Duration) uint64 {
	current := uint64(max(0, now.Sub(cursorEpoch)) / cursorInterval)
	if client == "" {
		return current // which every event asks for: an error would cost memory
	}
	sent, err := ParseDecimal(client)
	if err != nil || sent < current || sent > math.MaxUint64-maxCursorStep {
		return current
	}
	jitter = min(max(jitter, time.Second), maxCursorJitter)
	return sent + uint64((jitter+cursorInterval-1)/cursorInterval)
}

// CursorJitter is a random duration for [NextCursor], 1 to 3,600 whole seconds.
func CursorJitter() time.Duration {
	return time.Second + rand.N(maxCursorJitter/time.Second)*time.Second
}
