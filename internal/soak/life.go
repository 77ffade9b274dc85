package soak

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/engine"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/upkeep"
)

// bounds are those of a node.
type bounds struct {
	packedBytes   int
	tailBytes     int // cached of what was uploaded
	blockBytes    int // and of what was read
	segmentBytes  int
	grace         time.Duration
	keepRows      int
	snapshotBytes int64
	snapshotAge   time.Duration
	deadline      time.Duration // of an upload
	interval      time.Duration // between two, at least
	sweepAfter    time.Duration
	sweepEvery    time.Duration
}

// life is one start of a node.
type life struct {
	*engine.Engine
	*faults
	replica *replica.Replica
	upkeep  *upkeep.Upkeep
	cache   *blockcache.Cache
	bucket  *blob.Bucket
	free    func() error // closes the bucket; nil before it is open
	log     backing
	quit    context.CancelFunc // of the jobs
	jobs    sync.WaitGroup
	starts  chan replica.Start // capacity 1: the last time that it registered anew

	mu     sync.Mutex
	closed bool // takes no requests any more
	busy   sync.WaitGroup
	ending chan struct{} // closed when it begins to stop
	ended  chan struct{} // closed when all of it has stopped
}

// start is a life of a node, or why it did not come about: a fault at a start
// ends it.
//
// number is the node's, or 0, and its number then is remembered there even if the
// start fails.
func (w *world) start(ctx context.Context, number *commands.NodeID, seed uint64) (l *life, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	l = &life{faults: newFaults(w, seed), ending: make(chan struct{}), ended: make(chan struct{}), quit: func() {}, starts: make(chan replica.Start, 1)}
	defer func() {
		if err != nil {
			l.stop()
		}
	}()
	if l.log, err = w.openLog(ctx); err != nil {
		return nil, err
	}
	inner, free, err := w.openBucket()
	if err != nil {
		return nil, err
	}
	l.bucket, _ = faultbucket.Wrap(inner, l.plan)
	l.free = free
	return l, l.open(ctx, w, number)
}

func (l *life) open(ctx context.Context, w *world, number *commands.NodeID) (err error) {
	quiet, b := slog.New(slog.DiscardHandler), &w.bounds
	hub, log := engine.NewHub(), &journal{backing: l.log, faults: l.faults}
	l.replica, err = replica.Open(ctx, replica.Config{
		Log: log, Bucket: l.bucket, Logger: quiet, Now: w.now, Published: hub.Publish, Rejoined: l.rejoined, Poll: 20 * time.Millisecond, CallTimeout: 2 * time.Second,
		QueueTimeout: 2 * time.Second, SnapshotBytes: b.snapshotBytes, SnapshotAge: b.snapshotAge, KeepRows: b.keepRows,
	})
	if err != nil {
		return err
	}
	identity, err := l.register(ctx, w, number)
	if err != nil {
		return err
	}
	l.cache, err = blockcache.New(blockcache.Config{Bucket: l.bucket, Cluster: identity.Cluster, TailBytes: b.tailBytes, BlockBytes: b.blockBytes, Logger: quiet})
	if err != nil {
		return err
	}
	l.Engine, err = engine.New(engine.Config{
		Replica: l.replica, Hub: hub, Cache: l.cache, Logger: quiet, Now: w.now, AppendTimeout: 10 * time.Second, SyncTimeout: 200 * time.Millisecond,
		Writer: blobwal.WriterConfig{Bucket: l.bucket, Deadline: b.deadline, Interval: b.interval, Identity: identity, SegmentBytes: b.segmentBytes},
	})
	if err != nil {
		return err
	}
	l.upkeep, err = upkeep.New(upkeep.Config{
		Replica: l.replica, Leases: log, Bucket: l.bucket, Cache: l.cache, Segments: l.Engine, Identity: identity, Logger: quiet,
		PackedBytes: b.packedBytes, Bandwidth: 1 << 40, Grace: b.grace, SweepAfter: b.sweepAfter, SweepEvery: b.sweepEvery,
	})
	return err
}

// register is what cmd/picomq does.
func (l *life) register(ctx context.Context, w *world, number *commands.NodeID) (identity blobwal.Identity, err error) {
	cluster, err := blobwal.EnsureIdentity(ctx, l.bucket, nil)
	if err != nil {
		return identity, err
	}
	self := commands.RegisterNode{Cluster: cluster, Node: *number, Level: commands.Level}
	_, _ = rand.Read(self.Incarnation[:]) // never fails
	id, epoch, err := l.replica.Register(ctx, self)
	if err != nil {
		return identity, err
	}
	*number = id
	identity = blobwal.Identity{Cluster: cluster, Node: uint32(id), Epoch: uint64(epoch), Incarnation: self.Incarnation}
	w.cluster.Store((*commands.ClusterID)(&cluster))
	if err := blobwal.WriteMarker(ctx, l.bucket, identity); err != nil {
		return identity, err
	}
	return identity, l.replica.KeepMarks(ctx)
}

// maintain runs the jobs: as in production, each on its own with the time as it
// is, or in turn with a clock that hurries.
func (l *life) maintain(w *world, hurry bool) {
	ctx, cancel := context.WithCancel(context.Background())
	l.quit = cancel
	l.jobs.Go(func() { l.follow(ctx, *w.cluster.Load()) })
	l.jobs.Go(func() {
		if !hurry {
			l.upkeep.Run(ctx)
			return
		}
		for ctx.Err() == nil {
			_ = l.upkeep.Step(ctx, w.hurried()) // what fails is tried again
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
}

// enter begins a request, unless the node takes none any more.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.crashed.Load() {
		return false
	}
	l.busy.Add(1)
	return true
}

// leave ends one.
func (l *life) leave() { l.busy.Done() }

// stop ends the life: in order, or after a crash as far as is left to end.
func (l *life) stop() {
	defer close(l.ended)
	close(l.ending)
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.quit()
	l.jobs.Wait()
	ordered := !l.crashed.Load()
	if ordered {
		l.busy.Wait()
		l.closeEngine(l.down)
	}
	if l.replica != nil {
		l.replica.Close()
	}
	if !ordered {
		l.closeEngine(nil)
		l.busy.Wait()
	}
	if l.cache != nil {
		l.cache.Close()
	}
	if l.free != nil {
		_ = l.free()
	}
	if l.log != nil {
		_ = l.log.Close()
	}
}

// closeEngine lets what was taken be decided, until a crash; after one it is at
// once, when the replica was closed before.
func (l *life) closeEngine(crash <-chan struct{}) {
	if l.Engine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		select {
		case <-crash:
			cancel()
		case <-ctx.Done():
		}
	}()
	_ = l.Engine.Close(ctx) // a crash is its error
}

// String names the life in messages.
func (l *life) String() string {
	node, epoch := l.replica.Node()
	return fmt.Sprintf("node %d, epoch %d", node, epoch)
}
