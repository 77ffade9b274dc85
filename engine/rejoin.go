package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/stream"
)

// writers is the segment writer of the epoch in force, and what is left of the one
// before while the engine moves from one to the next.
//
//	in force ──Apply refuses commits, as the node is gone──► they are kept here
//	   │ Rejoin: appends wait
//	   ▼
//	moving ──old writer empty, its last commit decided──► all that was kept goes
//	                                                      to the new writer: in force
type writers struct {
	inForce atomic.Pointer[blobwal.Writer] // current, but nil while it moves: what appends look at

	mu      sync.Mutex // guards all below
	current *blobwal.Writer
	config  blobwal.WriterConfig // of current
	moving  chan struct{}        // while it moves: closed when that is over; else nil
	ended   bool                 // nothing moves any more: what comes back is answered
	open    int                  // commits of the current epoch that are not decided
	settled chan struct{}        // capacity 1: open became 0
	back    []*blobwal.Sealed    // segments of the current epoch that Apply refused, or never will see
	before  blobwal.Stats        // of the writers before current
	givenUp []uint64             // sequences of the current epoch to name in the next commit
}

// begin takes the first writer.
func (w *writers) begin(writer *blobwal.Writer, config blobwal.WriterConfig) {
	w.current, w.config, w.settled = writer, config, make(chan struct{}, 1)
	w.inForce.Store(writer)
}

// of tells whether an epoch is the one in force. mu is held.
func (w *writers) of(epoch uint64) bool { return w.config.Identity.Epoch == epoch }

// Rejoin goes on under the next epoch of a node that was taken for gone and
// registered anew, when the epoch's marker is in the bucket. What Apply refused
// of the old epoch, and what was not proposed yet, is stored again under the new
// one, in the order in which it came and before what comes now: its old objects are
// orphans. Nothing of it had been applied, so nothing is doubled. Appends wait
// meanwhile. If ctx ends first, the appends are told that nothing was written.
func (e *Engine) Rejoin(ctx context.Context, identity blobwal.Identity) error {
	w := &e.writers
	w.mu.Lock()
	if w.moving != nil || w.ended {
		w.mu.Unlock()
		return errors.New("engine: it moves to another epoch already, or was closed")
	}
	moved := make(chan struct{})
	w.moving = moved
	w.inForce.Store(nil)
	w.mu.Unlock()
	defer close(moved)

	// What it has not stored yet need not be: it comes back as given up.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_ = w.current.Close(ended) // it says that it was broken off
	err := e.allDecided(ctx)
	var next *blobwal.Writer
	config := w.config
	config.Identity = identity
	if err == nil {
		next, err = blobwal.NewWriter(config)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	w.moving = nil
	defer func() { w.inForce.Store(w.current) }()
	back := w.back
	w.back = nil
	if err != nil {
		w.ended = true
		for _, s := range back {
			e.finishAll(s, replica.ErrDeparted)
		}
		return err
	}
	w.before = added(w.before, w.current.Stats())
	w.current, w.config, w.givenUp = next, config, nil
	slices.SortFunc(back, func(a, b *blobwal.Sealed) int { return cmp.Compare(a.ID.Sequence, b.ID.Sequence) })
	for _, s := range back {
		e.again(next, s)
	}
	e.cfg.Logger.Info("this node goes on under another epoch", "node", identity.Node, "epoch", identity.Epoch, "segments", len(back))
	return nil
}

// again stores what a segment held under the next epoch, but for appends that
// nobody waits for any more: their clients were told that the outcome is unknown,
// and may have asked another node since.
func (e *Engine) again(next *blobwal.Writer, s *blobwal.Sealed) {
	for _, a := range s.Appends {
		p := a.Tag.(*pending)
		err := replica.ErrDeparted
		if !p.left.Load() {
			err = next.Add(a)
		}
		if err != nil {
			e.finish(p, outcome{err: err})
		}
	}
}

// allDecided waits until the log has decided every commit of the current epoch.
func (e *Engine) allDecided(ctx context.Context) error {
	w := &e.writers
	for {
		w.mu.Lock()
		open := w.open
		w.mu.Unlock()
		if open == 0 {
			return nil
		}
		select {
		case <-w.settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// add hands an append to the writer in force.
func (e *Engine) add(ctx context.Context, a *blobwal.Append) error {
	w := &e.writers
	for {
		if writer := w.inForce.Load(); writer != nil {
			err := writer.Add(a)
			if err == nil || w.inForce.Load() == writer {
				return err
			}
			continue // it was closed because it is another's turn
		}
		w.mu.Lock()
		moving := w.moving
		w.mu.Unlock()
		if moving == nil {
			continue // by now there is one
		}
		select {
		case <-moving:
		case <-ctx.Done():
			return stream.Errorf(stream.CodeUnavailable, "this node was taken for gone and could not register anew in time; nothing was written, try again")
		}
	}
}

// replaced tells whether a writer is not in force any more, or soon will not be.
func (w *writers) replaced(writer *blobwal.Writer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moving != nil || w.current != writer
}

// Moving tells whether appends wait for the node's next epoch.
func (e *Engine) Moving() bool {
	w := &e.writers
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moving != nil || len(w.back) > 0
}

// keep takes a segment back that was refused because the node is gone.
func (e *Engine) keep(s *blobwal.Sealed) {
	w := &e.writers
	s.Object = nil
	w.mu.Lock()
	ended := w.ended
	if !ended {
		w.back = append(w.back, s)
	}
	w.mu.Unlock()
	if ended {
		e.finishAll(s, replica.ErrDeparted)
	}
}

// brokenOff tells whether an upload failed only because the epoch is over.
func (w *writers) brokenOff() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moving != nil
}

// proposes counts a commit that is on its way; decides, one that the log decided.
func (w *writers) proposes() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
}

func (w *writers) decides() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open--; w.open == 0 {
		select {
		case w.settled <- struct{}{}:
		default:
		}
	}
}

// closeWriters lets the writer in force store what it has, within ctx, and answers
// what came back to no avail.
func (e *Engine) closeWriters(ctx context.Context) error {
	w := &e.writers
	e.endMoves()
	w.mu.Lock()
	writer := w.current
	w.mu.Unlock()
	return writer.Close(ctx)
}

// endMoves answers what came back, and from now on what comes back: it will not be
// stored under another epoch.
func (e *Engine) endMoves() {
	w := &e.writers
	w.mu.Lock()
	back := w.back
	w.ended, w.back = true, nil
	w.mu.Unlock()
	for _, s := range back {
		e.finishAll(s, replica.ErrDeparted)
	}
}

// watchReplica ends the moves of a node that ends instead of coming back.
func (e *Engine) watchReplica() {
	select {
	case <-e.replica.Failed():
		e.endMoves()
	case <-e.closed:
	}
}

// giveUp remembers sequences of an epoch that no commit will come for. Those of an
// epoch that is over are refused anyway.
func (e *Engine) giveUp(epoch uint64, sequences ...uint64) {
	w := &e.writers
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of(epoch) {
		w.givenUp = append(w.givenUp, sequences...)
	}
}

// takeGivenUp is the sequences to name in the next commit of an epoch, ascending.
func (e *Engine) takeGivenUp(epoch uint64) []uint64 {
	w := &e.writers
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.of(epoch) {
		return nil
	}
	n := min(len(w.givenUp), commands.MaxGivenUp)
	taken := slices.Clone(w.givenUp[:n])
	w.givenUp = w.givenUp[n:]
	slices.Sort(taken)
	return taken
}

// Writer is the counters of the segment writers.
func (e *Engine) Writer() blobwal.Stats {
	w := &e.writers
	w.mu.Lock()
	defer w.mu.Unlock()
	return added(w.before, w.current.Stats())
}

// added is what two writers did, and how the second stands.
func added(before, now blobwal.Stats) blobwal.Stats {
	now.Segments += before.Segments
	now.GivenUp += before.GivenUp
	now.Puts += before.Puts
	now.PutFailures += before.PutFailures
	now.Retries += before.Retries
	now.Appends += before.Appends
	now.Records += before.Records
	now.Bytes += before.Bytes
	return now
}
