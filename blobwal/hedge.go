package blobwal

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
)

const (
	// hedgeWindow is how many puts are remembered to know what is usual.
	hedgeWindow = 128
	// hedgeAfter is how many of them it takes before anything is known.
	hedgeAfter = 20
	// hedgeShare is how many puts there are for each that may be hedged: 5 %.
	hedgeShare = 20
	// hedgeSaved bounds how many hedges may follow each other at once because there
	// were none for a while.
	hedgeSaved = 10
)

// hedger puts an object once more beside a put that takes unusually long. A
// large store answers a few requests in a hundred late because of one slow
// machine, and the same request asked again meets another one.
//
// It is safe for concurrent use. A nil hedger hedges nothing.
type hedger struct {
	most     int             // pairs of puts of one object that are open at a time
	routines *sync.WaitGroup // counts every goroutine that puts

	mu     sync.Mutex // guards what follows
	recent [hedgeWindow]time.Duration
	puts   uint64 // timed so far; the newest is recent[(puts-1) % hedgeWindow]
	saved  int    // puts that no hedge was taken for, at most hedgeSaved * hedgeShare
	open   int    // pairs of which one is still under way
	begun  uint64
	won    uint64
}

// newHedger makes a hedger whose pairs, at most so many at a time, are counted
// in routines. Its caller is counted there as well while it puts.
func newHedger(most int, routines *sync.WaitGroup) *hedger {
	return &hedger{most: most, routines: routines}
}

// put is [createOnly], and a second time beside it once the first takes longer
// than is usual. Whichever succeeds first ends it; the other is told to stop and
// is not waited for. If both fail, the error is that of the later.
func (h *hedger) put(ctx context.Context, bucket *blob.Bucket, key string, body []byte) error {
	wait, known := h.patience()
	if !known {
		started := time.Now()
		err := createOnly(ctx, bucket, key, body)
		h.timed(time.Since(started), err)
		return err
	}
	p := &pair{hedger: h, bucket: bucket, key: key, body: body, results: make(chan putEnd, 2)}
	return p.run(ctx, wait)
}

// patience is how long to wait for a put before it is hedged: the longer of what
// 95 % take at most and twice what half of them do. It is not known at first, nor
// without a hedger.
func (h *hedger) patience() (d time.Duration, known bool) {
	if h == nil {
		return 0, false
	}
	h.mu.Lock()
	n := int(min(h.puts, hedgeWindow))
	recent := h.recent
	h.mu.Unlock()
	if n < hedgeAfter {
		return 0, false
	}
	slices.Sort(recent[:n])
	return max(recent[n*95/100], 2*recent[n/2]), true
}

// timed notes how long a put took that ended with err, hedged or not.
func (h *hedger) timed(took time.Duration, err error) {
	if h == nil || err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent[h.puts%hedgeWindow] = took
	h.puts++
	h.saved = min(h.saved+1, hedgeSaved*hedgeShare)
}

// begin tells whether a put may be hedged, and counts it.
func (h *hedger) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.saved < hedgeShare || h.open >= h.most {
		return false
	}
	h.saved -= hedgeShare
	h.open++
	h.begun++
	return true
}

// counts are the hedges begun and those that were first.
func (h *hedger) counts() (begun, won uint64) {
	if h == nil {
		return 0, 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun, h.won
}

// ended says that both puts of a pair are over.
func (h *hedger) ended() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open--
}

// firstWas counts which put of a pair decided.
func (h *hedger) firstWas(end putEnd) {
	if !end.hedge || end.err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.won++
}

// pair is one put and perhaps its hedge.
type pair struct {
	hedger  *hedger
	bucket  *blob.Bucket
	key     string
	body    []byte
	results chan putEnd // room for both: neither waits for a reader
	over    atomic.Int32
}

// putEnd is how a put of a pair ended.
type putEnd struct {
	hedge bool
	err   error
}

func (p *pair) run(ctx context.Context, wait time.Duration) (err error) {
	started := time.Now()
	defer func() { p.hedger.timed(time.Since(started), err) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.start(ctx, false)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case end := <-p.results:
		return end.err
	case <-timer.C:
	}
	if !p.hedger.begin() {
		return (<-p.results).err
	}
	p.start(ctx, true)
	end := <-p.results
	if end.err != nil && !isForeign(end.err) {
		end = <-p.results
	}
	p.hedger.firstWas(end)
	return end.err
}

// start begins one of the puts. The pair stays open until both are over, which a
// loser is when its driver has noticed that ctx is.
func (p *pair) start(ctx context.Context, hedge bool) {
	p.hedger.routines.Go(func() {
		p.results <- putEnd{hedge: hedge, err: createOnly(ctx, p.bucket, p.key, p.body)}
		if p.over.Add(1) == 2 {
			p.hedger.ended()
		}
	})
}
