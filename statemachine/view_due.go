package statemachine

import (
	"math"
	"sync/atomic"

	"github.com/picomq/picomq/stream"
)

// deadlines tells before when none of a page's streams is due: as an active time
// and as a log time, lower bounds both. A stream that comes, or comes to be due
// sooner, lowers them, under the page's lock; uses move deadlines up and leave
// them. Whoever looks through the page raises them to what it finds, under the
// lock for reading, so that a page is not looked through again before there may be
// something to find.
type deadlines struct {
	active, log atomic.Int64
}

func (d *deadlines) init() {
	d.active.Store(math.MaxInt64)
	d.log.Store(math.MaxInt64)
}

// passed tells whether one of the streams may be due.
func (d *deadlines) passed(active int64, now stream.Time) bool {
	return active >= d.active.Load() || int64(now) >= d.log.Load()
}

// lower counts a stream in. The page is locked.
func (d *deadlines) lower(r *row) {
	active, log := r.deadline()
	d.active.Store(min(d.active.Load(), active))
	d.log.Store(min(d.log.Load(), log))
}

// deadline is the active time and the log time from which on the stream is due:
// one of them, if any, the other never comes.
func (r *row) deadline() (active, log int64) {
	switch {
	case r.orphaned():
		return math.MinInt64, math.MaxInt64
	case r.expiry == stream.ExpiresIdle:
		return r.touched + r.limit*1000, math.MaxInt64
	case r.expiry == stream.ExpiresAt:
		return math.MaxInt64, r.limit
	default:
		return math.MaxInt64, math.MaxInt64
	}
}

// Due scans the streams after cursor, in the order of their ids, for those that
// Expire would remove. It looks at about maxScan of them, where 256 neighbours of
// which none can be due yet count as one, and returns where to go on: zero after
// the last. Start with cursor zero.
func (v View) Due(cursor stream.ID, maxScan int) (ids []stream.ID, next stream.ID) {
	last := v.s.public.lastDense.Load()
	active, now := v.ActiveTime(), v.LogTime()
	dense := cursor.Dense() + 1
	for scanned := 0; dense <= last; {
		if scanned >= maxScan {
			return ids, stream.MakeID(0, dense-1)
		}
		end := min(last, dense|(pageRows-1))
		scanned += v.duePage(dense, end, active, now, &ids)
		dense = end + 1
	}
	return ids, 0
}

// duePage adds the due streams of one page and says how many rows it looked at;
// a page that was passed over counts as one.
func (v View) duePage(from, to uint64, active int64, now stream.Time, ids *[]stream.ID) int {
	page := v.s.streams.at(from / pageRows)
	if page == nil || !page.deadlines.passed(active, now) {
		return 1
	}
	lock := v.s.streams.lock(from / pageRows)
	lock.RLock()
	defer lock.RUnlock()
	nextActive, nextLog := int64(math.MaxInt64), int64(math.MaxInt64)
	for at := range page.rows {
		r := &page.rows[at]
		if !r.live() {
			continue
		}
		dense := from&^(pageRows-1) | uint64(at)
		if from <= dense && dense <= to && r.due(active, now) {
			*ids = append(*ids, stream.MakeID(0, dense))
		}
		rowActive, rowLog := r.deadline()
		nextActive, nextLog = min(nextActive, rowActive), min(nextLog, rowLog)
	}
	page.deadlines.active.Store(nextActive)
	page.deadlines.log.Store(nextLog)
	return pageRows
}
