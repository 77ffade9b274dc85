package httpapi

import (
	"strconv"
	"time"

	"github.com/picomq/picomq/httpapi/wire"
)

// liveCursor gives the cursors of one live response. They never go back, also
// where the first one had to be moved ahead of what the client sent.
type liveCursor struct {
	clock func() time.Time
	first uint64
}

// newCursor begins the cursors of a response to a client that sent sent, which
// may be empty or anything else.
func (a *API) newCursor(sent string) liveCursor {
	clock := a.config.Clock
	return liveCursor{clock: clock, first: wire.NextCursor(clock(), sent, wire.CursorJitter())}
}

func (c liveCursor) value() uint64 { return max(c.first, wire.NextCursor(c.clock(), "", 0)) }

// String is the cursor now, as text.
func (c liveCursor) String() string { return strconv.FormatUint(c.value(), 10) }
