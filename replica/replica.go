package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/seldom"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// Replica is one node's copy of the state and its way into the log. Its
// methods are safe for concurrent use, except where they say otherwise.
type Replica struct {
	cfg   Config
	log   Log
	queue *queue
	heads headQueries
	pull  chan struct{} // capacity 1: somebody waits for rows of others

	// Written by Register before the loop starts, and by the loop when the node
	// registers anew, which holds mu meanwhile.
	self  commands.RegisterNode
	epoch commands.Epoch

	// Set by Open and Register before the loop starts.
	first      commands.Epoch // the epoch of Register
	view       statemachine.View
	stop       context.CancelFunc
	background context.Context // of the goroutines; done once stop was called
	loop       sync.WaitGroup
	failed     chan struct{}

	// Owned by the loop.
	state      *statemachine.State
	applied    commands.Position
	seq        uint64
	inFlight   *flight
	fenced     error                // another process registered this node
	departed   bool                 // this node is gone, the state says: it is to register anew
	joining    commands.Incarnation // the last that it tried to register anew as
	marked     commands.Position    // the last mark written; zero before KeepMarks
	snapshot   snapshotter
	comparison comparison
	learned    time.Duration // when it last asked how far the log is archived

	appliedIndex atomic.Uint64
	head         atomic.Uint64  // highest index known to be in the log
	contact      atomic.Int64   // when the log last answered, as time since start
	fresh        atomic.Int64   // when the view last held all that the log held, likewise
	inserting    atomic.Int64   // when the insert under way began, likewise; 0: none is
	leaving      atomic.Bool    // Depart was called
	silence      *seldom.Outage // of reading
	refusal      *seldom.Outage // of inserting
	started      time.Time
	stats        counters

	mu        sync.Mutex
	progress  chan struct{} // closed and replaced when appliedIndex grows
	published commands.Position
	archive   commands.Archive // as last learned
	err       error            // why failed is closed
}

// flight is the one row on its way.
type flight struct {
	origin commands.Origin
	items  []*item
}

// Open builds the state from the newest usable snapshot and the rows after it,
// up to the log's head. The replica does nothing more until Register.
func Open(ctx context.Context, cfg Config) (*Replica, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Replica{
		cfg: cfg, log: cfg.Log, queue: newQueue(cfg.QueueBytes), pull: make(chan struct{}, 1),
		failed: make(chan struct{}), progress: make(chan struct{}), started: time.Now(), stop: func() {},
		silence: seldom.NewOutage(cfg.Logger, nil, "the log does not answer; trying again", "the log answers again"),
		refusal: seldom.NewOutage(cfg.Logger, nil, "an insert into the log failed; trying again", "the log takes rows again"),
	}
	if err := r.catchUp(ctx); err != nil {
		return nil, err
	}
	if err := r.checkHead(ctx); err != nil {
		return nil, err
	}
	r.publish()
	return r, nil
}

// catchUp installs a base and applies what follows.
func (r *Replica) catchUp(ctx context.Context) error {
	if err := r.install(ctx); err != nil {
		return err
	}
	r.view = r.state.View()
	return r.Refresh(ctx)
}

// Refresh applies what others added to the log meanwhile. It may be called
// between Open and Register only: from then on the loop does so.
func (r *Replica) Refresh(ctx context.Context) error {
	if err := r.tail(ctx); err != nil {
		return fmt.Errorf("replay the log: %w", err)
	}
	return nil
}

// Register announces this process as a node and starts the loop, unless the log
// lost what some node had applied: then it writes nothing. The command's Node
// may be 0 for the lowest free number; the number and epoch are returned.
func (r *Replica) Register(ctx context.Context, self commands.RegisterNode) (commands.NodeID, commands.Epoch, error) {
	r.self = self
	if err := r.checkMarks(ctx, self.Cluster); err != nil {
		return 0, 0, err
	}
	result, err := r.announce(ctx, self)
	if err != nil {
		return 0, 0, err
	}
	r.self.Node, r.epoch, r.first = result.Node, result.Epoch, result.Epoch
	epoch, gone := r.standing(r.self.Node)
	r.departed = gone
	if epoch != r.epoch { // already, in the rows after ours
		return 0, 0, fmt.Errorf("another process registered as node %d while this one did: give each process its own --data or --node-id", r.self.Node)
	}
	r.snapshot.prefix = fmt.Sprintf("%s/0000/snapshots/", self.Cluster)
	r.background, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.loop.Go(func() { r.run(r.background) })
	return result.Node, result.Epoch, nil
}

// levelError says which release a log needs that this binary is too old for.
func levelError(view statemachine.View) error {
	return fatalf("the cluster runs feature level %d, which came with release %s, and this binary understands %d: run release %s or a newer one",
		view.Level(), view.Release(), commands.Level, view.Release())
}

func registrationError(v statemachine.Verdict, self *commands.RegisterNode, view statemachine.View) error {
	switch v {
	case statemachine.Accepted:
		return nil
	case statemachine.WrongCluster:
		cluster, _ := view.Cluster()
		return fmt.Errorf("the log belongs to cluster %s and the bucket to %s: use the bucket and the database of one cluster", cluster, self.Cluster)
	case statemachine.LevelTooLow:
		return levelError(view)
	default:
		return fmt.Errorf("the log refused the registration of node %d: %v", self.Node, v)
	}
}

// Close stops the loop. What waits is answered as not written; the row in
// flight, if its outcome is not known yet, as unknown. The last mark is written.
func (r *Replica) Close() {
	r.stop()
	r.loop.Wait()
	r.fail(errClosed)
	r.lastMark()
}

// End ends the replica for good because of a fault that somebody else found, as
// if it had found it itself.
func (r *Replica) End(err error) { r.fail(err) }

var errClosed = stream.Errorf(stream.CodeUnavailable, "this node is stopping; nothing was written, try another or try again")

// View reads the state as of the last applied entry.
func (r *Replica) View() statemachine.View { return r.view }

// Node is this node's number and epoch, once registered.
// Both change when it was taken for gone and registered anew.
func (r *Replica) Node() (commands.NodeID, commands.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.self.Node, r.epoch
}

// Failed is closed when the replica ended for good; Err then says why.
func (r *Replica) Failed() <-chan struct{} { return r.failed }

// Err is why the replica ended, or nil while it runs.
func (r *Replica) Err() error {
	select {
	case <-r.failed:
	default:
		return nil // which every read asks, so that it takes no lock
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// fail ends the replica: the first reason stays.
func (r *Replica) fail(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
		close(r.failed)
	}
	err = r.err
	r.mu.Unlock()
	refusal := errClosed
	if !errors.Is(err, errClosed) {
		refusal = stream.Errorf(stream.CodeUnavailable, "this node has stopped serving; nothing was written, try another or try again")
	}
	for _, it := range r.queue.close(refusal) {
		it.done(Decision{}, refusal)
	}
}

// run is the loop: it alone inserts, reads and applies.
func (r *Replica) run(ctx context.Context) {
	poll := time.NewTicker(r.cfg.Poll)
	defer poll.Stop()
	defer r.snapshot.wait()
	defer func() { r.comparison.release(outcomeUnknown()) }()
	for ctx.Err() == nil {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-r.failed: // by a head query or a snapshot's replay
			return
		case <-r.queue.ready:
			err = r.drain(ctx)
		case <-r.log.Wakeups():
			err = r.heard(ctx)
		case <-r.pull:
			err = r.tail(ctx)
		case <-poll.C:
			err = r.tick(ctx)
		}
		if err == nil && r.departed {
			err = r.rejoin(ctx)
		}
		if err != nil && r.mustEnd(err) {
			r.cfg.Logger.Error("the replica ends", "error", err, "applied", r.applied)
			r.fail(err)
			return
		}
		r.maybeSnapshot(ctx)
	}
}

// heard reads what others wrote. An exclusive log tells only of this node's own
// rows, which were applied when they were inserted.
func (r *Replica) heard(ctx context.Context) error {
	if r.log.Exclusive() {
		return r.fenced
	}
	return r.tail(ctx)
}

// learnArchive is how often a node asks how far the log is archived, for its
// own figures: the work is done by one of the nodes.
const learnArchive = 10 * time.Second

// tick is the slow poll. An exclusive log has no rows of others to find.
func (r *Replica) tick(ctx context.Context) error {
	if r.log.Exclusive() {
		return nil
	}
	if now := r.clock(); now-r.learned >= learnArchive {
		r.learned = now
		if _, err := r.archived(ctx, r.log.Archive); err != nil {
			return err
		}
	}
	if err := r.tail(ctx); err != nil {
		return err
	}
	return r.checkHead(ctx)
}

// mustEnd tells faults that end the replica from those of the connection, which
// the next round tries again.
func (r *Replica) mustEnd(err error) bool {
	var end *fatalError
	if errors.As(err, &end) || errors.Is(err, commands.ErrLostTail) || errors.Is(err, commands.ErrDamaged) {
		return true
	}
	if !errors.Is(err, context.Canceled) {
		r.stats.logErrors.Add(1)
		r.silence.Failed("error", err)
	}
	return false
}

// fatalError ends the replica.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

func fatalf(format string, args ...any) error { return &fatalError{fmt.Errorf(format, args...)} }

// answered notes that the log was in reach just now.
func (r *Replica) answered() {
	r.contact.Store(int64(r.clock()))
	r.silence.Worked()
}

// Stale is how long ago the view held, for certain, all that the log held. A log
// that answers while its rows do not come makes a view stale all the same.
func (r *Replica) Stale() time.Duration { return r.since(&r.fresh) }

// clock is the time since the start, on the monotonic clock.
func (r *Replica) clock() time.Duration { return time.Since(r.started) }

func (r *Replica) since(moment *atomic.Int64) time.Duration {
	return r.clock() - time.Duration(moment.Load())
}

// freshen notes that the view holds what the log held at a moment.
func (r *Replica) freshen(moment time.Duration) {
	for {
		old := r.fresh.Load()
		if int64(moment) <= old || r.fresh.CompareAndSwap(old, int64(moment)) {
			return
		}
	}
}
