package httpapi

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// Cursors let caches answer live readers: everyone who asks within one interval
// carries the same cursor, so one upstream request serves them all. A reader that
// comes back with the current one (it was answered from a cache) is moved ahead
// by chance, so that it is never answered with the same URL again.
const (
	cursorInterval = 20 * time.Second
	maxCursorJump  = 3600 // seconds
)

// cursorEpoch is where intervals are counted from.
var cursorEpoch = time.Date(2024, time.October, 9, 0, 0, 0, 0, time.UTC)

// maxCursor keeps what is echoed within the integers that every JSON reader
// keeps; a larger one cannot be ours and counts as none.
const maxCursor = 1<<53 - 1 - maxCursorJump

// liveCursor gives the cursors of one live response.
type liveCursor struct {
	clock func() time.Time
	least uint64 // jumped to because of what the client sent; 0 if it need not
}

// newCursor begins the cursors of a response to a client that sent sent, which
// may be empty or anything else.
func (a *API) newCursor(sent string) liveCursor {
	c := liveCursor{clock: a.config.Clock}
	given, err := parseDecimal("cursor", sent, maxCursor)
	if err == nil && given >= c.interval() {
		c.least = given + cursorJump(1+rand.Uint64N(maxCursorJump))
	}
	return c
}

// value is the cursor now: never less than one given before in this response.
func (c liveCursor) value() uint64 { return max(c.interval(), c.least) }

// String is the cursor now, as text.
func (c liveCursor) String() string { return strconv.FormatUint(c.value(), 10) }

func (c liveCursor) interval() uint64 {
	since := c.clock().Sub(cursorEpoch)
	if since < 0 {
		return 0 // a clock before the epoch
	}
	return uint64(since / cursorInterval)
}

// cursorJump is a number of seconds in intervals, rounded up: at least 1.
func cursorJump(seconds uint64) uint64 {
	const interval = uint64(cursorInterval / time.Second)
	return (seconds + interval - 1) / interval
}
