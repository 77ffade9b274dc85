package statemachine

import (
	"sync"
	"sync/atomic"

	"github.com/picomq/picomq/stream"
)

// Rows live in pages of pageRows, found by number without a map. Pages are
// grouped in chunks, so that the directory grows without copying what readers
// hold.
const (
	pageRows   = 256
	chunkPages = 4096
	stripes    = 256
)

type chunk[P any] [chunkPages]atomic.Pointer[P]

// stripe is a lock on a cache line of its own. Page n is guarded by stripe
// n modulo stripes.
type stripe struct {
	sync.RWMutex
	_ [40]byte
}

// directory finds pages; chunks in which there never was one are nil. The apply
// goroutine adds and drops pages and writes rows under their stripe's lock; it
// reads rows without one. Readers find pages without a lock and read rows under
// the stripe's read lock.
type directory[P any] struct {
	chunks atomic.Pointer[[]*chunk[P]]
	locks  [stripes]stripe
}

// at is page n, or nil.
func (d *directory[P]) at(n uint64) *P {
	chunks := d.chunks.Load()
	if chunks == nil || n/chunkPages >= uint64(len(*chunks)) || (*chunks)[n/chunkPages] == nil {
		return nil
	}
	return (*chunks)[n/chunkPages][n%chunkPages].Load()
}

// put makes p page n. A nil p drops the page.
func (d *directory[P]) put(n uint64, p *P) {
	var chunks []*chunk[P]
	if old := d.chunks.Load(); old != nil {
		chunks = *old
	}
	at := n / chunkPages
	if at >= uint64(len(chunks)) || chunks[at] == nil {
		grown := make([]*chunk[P], max(at+1, uint64(len(chunks))))
		copy(grown, chunks)
		grown[at] = new(chunk[P])
		d.chunks.Store(&grown)
		chunks = grown
	}
	chunks[at][n%chunkPages].Store(p)
}

func (d *directory[P]) lock(n uint64) *sync.RWMutex { return &d.locks[n%stripes].RWMutex }

// row is the flat part of a stream: 48 bytes without a pointer, so that the
// garbage collector passes over a page's rows.
type row struct {
	created     stream.Time
	start, tail stream.Offset
	touched     int64  // active time of the last use; 0 unless ExpiresIdle
	limit       int64  // seconds for ExpiresIdle, log time for ExpiresAt, else 0
	contentType uint32 // in State.types
	expiry      stream.ExpiryKind
	flags       uint8
}

const (
	flagLive      uint8 = 1 << iota // the row holds a stream
	flagClosed                      // the stream is closed
	flagStreamSeq                   // a Stream-Seq was accepted: it stands in the side
	flagDeleted                     // the stream was deleted: it keeps its name while forks of it live
	flagFork                        // the stream is a fork: its origin stands in the side
	flagForked                      // forks of the stream live: their number stands in the side
	flagRetained                    // retention was asked for: it stands in the side
	knownFlags    = 1<<iota - 1
)

func (r *row) live() bool      { return r.flags&flagLive != 0 }
func (r *row) closed() bool    { return r.flags&flagClosed != 0 }
func (r *row) streamSeq() bool { return r.flags&flagStreamSeq != 0 }
func (r *row) deleted() bool   { return r.flags&flagDeleted != 0 }
func (r *row) isFork() bool    { return r.flags&flagFork != 0 }
func (r *row) forked() bool    { return r.flags&flagForked != 0 }
func (r *row) retained() bool  { return r.flags&flagRetained != 0 }

// orphaned tells whether nothing keeps a deleted stream any more.
func (r *row) orphaned() bool { return r.deleted() && !r.forked() }

// canExpire tells whether Expire may ever remove the stream as it is now.
func (r *row) canExpire() bool { return r.expiry != stream.ExpiresNever || r.orphaned() }

// expiryConfig is the expiry as it was asked for.
func (r *row) expiryConfig() stream.Expiry {
	e := stream.Expiry{Kind: r.expiry}
	switch r.expiry {
	case stream.ExpiresIdle:
		e.TTL = uint64(r.limit)
	case stream.ExpiresAt:
		e.At = stream.Time(r.limit)
	case stream.ExpiresNever:
	}
	return e
}

// side is what few streams have.
type side struct {
	producers []producer
	// byID finds producers by their interned id once there are many; nil before.
	byID      map[uint32]uint32
	streamSeq string
	// closer is 1 + the place in producers of the one whose request closed the
	// stream; 0 when none did. Nothing of a producer changes after the close, so
	// its epoch and sequence are those of the closing request.
	closer uint32
	forks  uint32       // live forks
	fork   *stream.Fork // of a fork: how it began; never written to
	// retention is what the create asked for, or the parent's had.
	retention stream.Retention
}

// streamPage holds the streams of 256 consecutive dense numbers. What is not
// flat lies beside the rows, at the same place.
type streamPage struct {
	capture   capture[rowCopy]
	live      int       // streams in the page
	changes   uint64    // of its streams, so far
	deadlines deadlines // of its streams
	rows      *[pageRows]row
	names     [pageRows]string
	extents   [pageRows]extents
	sides     [pageRows]*side
}

func newStreamPage(generation uint64) *streamPage {
	p := &streamPage{capture: capture[rowCopy]{taken: generation}, rows: new([pageRows]row)}
	p.deadlines.init()
	return p
}

// place is where a stream's row is.
type place struct {
	page *streamPage
	at   int
}

func (p place) row() *row         { return &p.page.rows[p.at] }
func (p place) side() *side       { return p.page.sides[p.at] }
func (p place) extents() *extents { return &p.page.extents[p.at] }

// makeSide is the side, made when there is none yet. The row is locked.
func (p place) makeSide() *side {
	if p.page.sides[p.at] == nil {
		p.page.sides[p.at] = new(side)
	}
	return p.page.sides[p.at]
}

// find is the place of a stream that exists, due or not.
func (s *State) find(id stream.ID) (place, bool) {
	dense := id.Dense()
	if id.Log() != 0 {
		return place{}, false
	}
	page := s.streams.at(dense / pageRows)
	if page == nil {
		return place{}, false
	}
	p := place{page, int(dense % pageRows)}
	return p, p.row().live()
}

// findLive is find for streams that are not past their deadline. A deleted one
// that forks keep is among them.
func (s *State) findLive(id stream.ID) (place, bool) {
	p, ok := s.find(id)
	return p, ok && !s.due(p.row())
}

// beginRow locks a stream's row for writing, after a running snapshot has got
// the row as it was, and takes its changing part out of the digest. endRow puts
// the row as it is then back and unlocks it.
func (s *State) beginRow(id stream.ID, p place) {
	s.streams.lock(id.Dense() / pageRows).Lock()
	s.keepRow(id, p)
	s.items -= s.hashRow(id, p)
}

func (s *State) endRow(id stream.ID, p place) {
	s.items += s.hashRow(id, p)
	p.page.changes++
	s.streams.lock(id.Dense() / pageRows).Unlock()
}
