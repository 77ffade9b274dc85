package blobwal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/picomq/picomq/stream"
)

// Writer groups appends into segments and uploads them. All methods are safe
// for concurrent use.
//
// It has no goroutine of its own: an append, the end of an upload or the timer
// that covers the rest of a seal gap runs pump, which seals what is due and
// starts an upload for it. There are never more goroutines than Slots uploads,
// one that delivers, and a timer that fires; with hedging three for each upload,
// and one for each of at most Slots puts that lost and have yet to notice.
type Writer struct {
	config WriterConfig
	ctx    context.Context // of the uploads; done when Close gives up
	cancel context.CancelFunc
	hedger *hedger // of segments; nil when they are not hedged

	mu         sync.Mutex // guards all below
	queue      []*group   // waiting to be sealed, oldest first; all but the last are full
	spare      []*group   // empty ones, at most Slots, for their memory
	free       int        // upload slots
	undecided  int        // segments sealed, of which Decided was not called
	unanswered int        // appends added that are in none of which it was
	sequence   uint64     // the last one given
	lastSeal   time.Time
	meanPut    time.Duration
	timer      *time.Timer // will run pump; nil when not set
	timerAt    time.Time   // when
	order      *order
	delivering bool // some goroutine is in deliver
	closed     bool
	fatal      error // somebody else's object was found
	stats      Stats

	drained  chan struct{} // closed when closed and everything is delivered
	routines sync.WaitGroup
}

// Stats counts what a writer did since its start.
type Stats struct {
	Segments     uint64 // delivered, given up included
	GivenUp      uint64 // segments
	Puts         uint64 // that succeeded, those of [Writer.Put] included
	PutFailures  uint64 // tries that failed
	Retries      uint64 // tries after a failed one
	Appends      uint64
	Records      uint64
	Bytes        uint64        // of objects uploaded
	Backlog      int           // bytes added and not delivered
	BacklogLimit int           // bytes
	InFlight     int           // uploads
	Hedges       uint64        // second puts of segments that took long
	HedgesWon    uint64        // that were done before the first
	MeanPut      time.Duration // moving mean of the successful tries to put segments
}

// NewWriter starts a writer. Close it.
func NewWriter(config WriterConfig) (*Writer, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	w := &Writer{config: config, free: config.Slots, order: newOrder(), drained: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	if config.Hedge {
		w.hedger = newHedger(config.Slots, &w.routines)
	}
	return w, nil
}

// Add takes an append; it will be delivered, in a segment or with an error,
// exactly once. The caller must not change it until then.
//
// It never waits. It refuses with a [*stream.Error]: CodeOverloaded when the
// backlog is full, CodeTooLarge when the append can never fit, CodeUnavailable
// after Close, CodeBadRequest without records or name, CodeInternal after
// somebody else's object was found under our identity.
func (w *Writer) Add(a *Append) error {
	bytes := a.bytes()
	if err := w.check(a, bytes); err != nil {
		return err
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.fatal != nil:
		return w.fatal
	case w.closed:
		return errClosed()
	case w.stats.Backlog+bytes > w.config.BacklogBytes:
		return stream.Errorf(stream.CodeOverloaded,
			"%d bytes wait to be stored, and %d more exceed the bound of %d; nothing was written",
			w.stats.Backlog, bytes, w.config.BacklogBytes)
	}
	w.stats.Backlog += bytes
	w.unanswered++
	w.open(bytes).add(a, bytes, now)
	w.pump(now)
	return nil
}

func errClosed() error {
	return stream.Errorf(stream.CodeUnavailable, "this node is shutting down; nothing was written")
}

func (w *Writer) check(a *Append, bytes int) error {
	switch {
	case len(a.Records) == 0:
		return stream.Errorf(stream.CodeBadRequest, "an append to %q has no records", a.Name)
	case a.Stream == 0 && (a.Name == "" || len(a.Name) > stream.MaxNameBytes):
		return stream.Errorf(stream.CodeBadRequest, "an append that creates its stream needs a name of 1 to %d bytes", stream.MaxNameBytes)
	case bytes > w.config.MaxAppendBytes:
		return stream.Errorf(stream.CodeTooLarge, "the append takes %d bytes, and at most %d fit", bytes, w.config.MaxAppendBytes)
	}
	for i := range a.Records {
		if n := len(a.Records[i].Headers); n > MaxHeaders {
			return stream.Errorf(stream.CodeTooLarge, "record %d has %d headers, and at most %d are allowed", i, n, MaxHeaders)
		}
	}
	return nil
}

// open is the group that the next append goes into: the newest if it fits.
func (w *Writer) open(bytes int) *group {
	if n := len(w.queue); n > 0 {
		g := w.queue[n-1]
		if len(g.entries) < w.config.MaxAppends && g.bytes+bytes <= w.config.SegmentBytes {
			return g
		}
	}
	g := w.take()
	w.queue = append(w.queue, g)
	return g
}

func (w *Writer) take() *group {
	n := len(w.spare)
	if n == 0 {
		return newGroup()
	}
	g := w.spare[n-1]
	w.spare = w.spare[:n-1]
	return g
}

// pump seals everything that is due and sets the timer for what will be.
func (w *Writer) pump(now time.Time) {
	for {
		wait := sealWait(w.sealInput(now))
		if wait == 0 {
			w.seal(now)
			continue
		}
		if wait > 0 {
			w.setTimer(now.Add(wait), wait)
		}
		return
	}
}

// setTimer has pump run in a while, unless it will be run before. A timer that is
// set for later, when a group was still small, gives way.
func (w *Writer) setTimer(at time.Time, wait time.Duration) {
	if w.timer != nil && at.Before(w.timerAt) {
		w.stopTimer()
	}
	if w.timer == nil {
		w.routines.Add(1)
		w.timer, w.timerAt = time.AfterFunc(wait, w.onTimer), at
	}
}

func (w *Writer) sealInput(now time.Time) sealInput {
	in := sealInput{
		buffered: len(w.queue) > 0, free: w.free, slots: w.config.Slots, underWay: w.underWay(),
		sinceSeal: now.Sub(w.lastSeal), interval: w.config.Interval, pace: w.config.Pace, meanPut: w.meanPut,
	}
	if in.buffered {
		oldest := w.queue[0]
		if oldest.bytes >= w.config.SegmentBytes/largeShare {
			in.pace = 0
		}
		in.full = w.closed || len(w.queue) > 1 ||
			oldest.bytes >= w.config.SegmentBytes || len(oldest.entries) >= w.config.MaxAppends
	}
	return in
}

// onTimer runs once a seal gap is over. A seal may have come between; pump
// looks again.
func (w *Writer) onTimer() {
	defer w.routines.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = nil
	w.pump(time.Now())
}

func (w *Writer) stopTimer() {
	if w.timer != nil && w.timer.Stop() {
		w.timer = nil
		w.routines.Done()
	}
}

// seal gives the oldest group a sequence and a slot and starts its upload.
func (w *Writer) seal(now time.Time) {
	g := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	w.free--
	w.undecided++
	w.sequence++
	w.lastSeal = now
	s := &segment{
		charged: g.bytes,
		sealed:  &Sealed{ID: w.config.Identity.Segment(w.sequence), writer: w},
		seal:    Seal{Appends: len(g.entries), Streams: len(g.streams), Waited: now.Sub(g.opened)},
		streams: make([]orderKey, len(g.streams)),
	}
	for i := range g.streams {
		s.streams[i] = g.streams[i].key.orderKey
	}
	w.order.enter(s)
	w.routines.Add(1)
	go w.upload(s, g, w.fatal)
}

// upload encodes and puts a segment, gives the slot back, and delivers what may
// be delivered now. With a fatal error it puts nothing.
func (w *Writer) upload(s *segment, g *group, fatal error) {
	defer w.routines.Done()
	w.encode(s, g)
	err, result := fatal, PutResult{}
	if fatal == nil {
		result, err = w.put(w.ctx, s.sealed.Key, s.sealed.Object, 1, w.hedger)
	}
	s.sealed.Err = w.finalError(s.sealed.ID, result.Tries, err)
	s.seal.Put, s.seal.Tries, s.seal.GivenUp = result.Took, result.Tries, err != nil

	w.mu.Lock()
	defer w.mu.Unlock()
	w.free++
	w.recycle(g)
	w.count(result, s.sealed.Size, s.sealed.Err)
	if err == nil {
		w.meanPut = moveMean(w.meanPut, result.Took)
	}
	w.order.ended(s)
	w.pump(time.Now())
	w.deliver()
}

func (w *Writer) encode(s *segment, g *group) {
	out := s.sealed
	out.Appends = g.ordered()
	encoded := Encode(w.config.Identity, out.ID.Sequence, out.Appends)
	out.Key = Key(w.config.Identity.Cluster, out.ID)
	out.Object, out.Size = encoded.Object, uint64(len(encoded.Object))
	out.Bytes, out.Records = encoded.Bytes, encoded.Records
	s.seal.Blocks, s.seal.Records, s.seal.Bytes = encoded.Blocks, encoded.Records, len(encoded.Object)
}

// put puts an object with the writer's bounds, times a factor, and counts tries
// that fail. A hedger may be nil.
func (w *Writer) put(ctx context.Context, key string, object []byte, times time.Duration, hedger *hedger) (PutResult, error) {
	return Put(ctx, w.config.Bucket, key, object, PutPolicy{
		TryTimeout: times * w.config.PutTimeout,
		Deadline:   times * w.config.Deadline,
		hedger:     hedger,
		Failed: func(try int, err error) {
			if try&(try-1) == 0 { // the 1st, 2nd, 4th, 8th…: the same error comes again and again
				w.config.Logger.Warn("a try to put a segment failed", "key", key, "try", try, "error", err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stats.PutFailures++
		},
	})
}

// finalError is what an abandoned upload is reported as.
func (w *Writer) finalError(id SegmentID, tries int, err error) error {
	switch {
	case err == nil:
		return nil
	case isForeign(err):
		return stream.Errorf(stream.CodeInternal, "segment %s: %w", id, err)
	default:
		w.config.Logger.Error("a segment is given up", "segment", id, "tries", tries, "error", err)
		return stream.Errorf(stream.CodeUnavailable,
			"the bucket did not take segment %s in %d tries; nothing was written: %w", id, tries, err)
	}
}

// recycle keeps a group's memory for a later one, unless it grew for an
// unusually large one.
func (w *Writer) recycle(g *group) {
	if len(w.spare) < w.config.Slots && cap(g.entries) <= 2*w.config.MaxAppends {
		g.reset()
		w.spare = append(w.spare, g)
	}
}

// count counts an upload of so many bytes that ended with err, as finalError
// made it.
func (w *Writer) count(result PutResult, bytes uint64, err error) {
	w.stats.Retries += uint64(max(result.Tries-1, 0))
	switch {
	case err == nil:
		w.stats.Puts++
		w.stats.Bytes += bytes
	case isForeign(err) && w.fatal == nil:
		w.fatal = err
	}
}

// deliver hands over every segment that may be, on this goroutine unless
// another one is at it. It is called with mu held and lets go of it meanwhile.
func (w *Writer) deliver() {
	if w.delivering {
		return
	}
	w.delivering = true
	for s := w.order.next(); s != nil; s = w.order.next() {
		w.mu.Unlock()
		w.config.Observe(s.seal)
		w.config.Sealed(s.sealed)
		w.mu.Lock()
		w.order.delivered(s)
		w.countDelivered(s)
	}
	w.delivering = false
	w.signalDrained()
}

func (w *Writer) countDelivered(s *segment) {
	w.stats.Backlog -= s.charged
	w.stats.Segments++
	w.stats.Appends += uint64(s.seal.Appends)
	w.stats.Records += uint64(s.seal.Records)
	if s.seal.GivenUp {
		w.stats.GivenUp++
	}
}

func (w *Writer) signalDrained() {
	if !w.closed || len(w.queue) > 0 || w.order.undelivered > 0 {
		return
	}
	select {
	case <-w.drained:
	default:
		close(w.drained)
	}
}

// Close takes no more appends, uploads and delivers what was added, and
// returns when all of it is delivered. When ctx is done first, it breaks the
// uploads off; what they carried is delivered as given up, and Close returns an
// error. Calling it again waits for the same.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.stopTimer()
	w.pump(time.Now())
	if !w.delivering {
		w.signalDrained()
	}
	w.mu.Unlock()

	var err error
	select {
	case <-w.drained:
	case <-ctx.Done():
		err = fmt.Errorf("close the segment writer before everything was uploaded: %w", context.Cause(ctx))
		w.cancel()
		<-w.drained
	}
	w.cancel()
	w.routines.Wait()
	return err
}

// Stats is a snapshot of the counters.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.BacklogLimit = w.config.BacklogBytes
	s.InFlight = w.config.Slots - w.free
	s.MeanPut = w.meanPut
	s.Hedges, s.HedgesWon = w.hedger.counts()
	return s
}
