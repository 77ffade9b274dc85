package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"gocloud.dev/blob"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blockcache"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/engine"
	"github.com/picomq/picomq/internal/peer"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/upkeep"
)

// node is everything of one process behind the protocols. Its parts are listed
// in the order in which they start; stop takes them apart in reverse.
type node struct {
	logger  *slog.Logger
	bucket  *blob.Bucket
	log     *sqllog.Log
	replica *replica.Replica
	cache   *blockcache.Cache
	peers   *peer.Client // nil without a secret
	hub     *engine.Hub
	engine  *engine.Engine
	upkeep  *upkeep.Upkeep
	seals   *sealMetrics

	combiner  combiner
	standing  standing
	unwritten atomic.Pointer[silence] // the log takes no heartbeats; nil: it took the last one
	address   string                  // where other nodes reach it; may be empty
	temporary string                  // a folder that goes with the node
	lock      *flock.Flock            // on the data folder; nil where the log is SQLite, locked itself

	background sync.WaitGroup
	cancel     context.CancelFunc
}

// startNode is a node that runs, reached by other nodes at an address. A failure
// leaves nothing running.
func startNode(ctx context.Context, c *config, address string) (*node, error) {
	n := newNode(c, address)
	if err := n.start(ctx, c); err != nil {
		n.stop(context.WithoutCancel(ctx))
		return nil, err
	}
	return n, nil
}

func newNode(c *config, address string) *node {
	return &node{
		address: address, logger: c.logger(), hub: engine.NewHub(), seals: newSealMetrics(), cancel: func() {},
		standing: standing{changed: make(chan struct{}, 1), unheard: make(chan struct{}, 1)},
	}
}

// start opens the bucket and the log, checks that they belong together, replays,
// registers, and starts the engine.
func (n *node) start(ctx context.Context, c *config) error {
	if c.throwAway() {
		if err := n.throwAway(c); err != nil {
			return err
		}
	}
	if err := n.lockData(c); err != nil {
		return err
	}
	wanted, err := rememberedNode(c.data, c.nodeID)
	if err != nil {
		return err
	}
	if err := n.openLog(ctx, c); err != nil {
		return err
	}
	now, err := clock()
	if err != nil {
		return err
	}
	log := replica.Config{Log: n.log, Bucket: n.bucket, Logger: n.logger, Now: now, Published: n.hub.Publish, Rejoined: n.standing.rejoined, KeepRows: c.keepRows, Combiner: n.combine(c)}
	hasten(&log)
	err = n.patiently(ctx, func() (err error) {
		n.replica, err = replica.Open(ctx, log)
		return err
	})
	if err != nil {
		return err
	}
	identity, err := n.register(ctx, c.data, wanted)
	if err != nil {
		return err
	}
	if err := n.startEngine(c, identity, now); err != nil {
		return err
	}
	return n.startUpkeep(c, identity)
}

// throwAway puts the log of a server whose records are in memory into a folder
// that goes with it.
func (n *node) throwAway(c *config) error {
	folder, err := os.MkdirTemp("", "picomq-")
	if err != nil {
		return fmt.Errorf("make a folder for the log: %w", err)
	}
	n.temporary, c.data = folder, folder
	c.metaURL = "sqlite://" + filepath.ToSlash(filepath.Join(folder, logFile))
	n.logger.Warn("records are in memory only: they and the log go when the server ends")
	return nil
}

// register finds the cluster's identity, announces this process in the log and
// claims its epoch in the bucket.
func (n *node) register(ctx context.Context, folder string, wanted wish) (blobwal.Identity, error) {
	var cluster commands.ClusterID
	var start replica.Start
	_, _ = rand.Read(start.Incarnation[:]) // never fails
	err := n.patiently(ctx, func() (err error) {
		if cluster, err = n.cluster(ctx); err != nil {
			return err
		}
		// What fails and may pass does so before the registration is sent; from then on
		// the replica itself tries again.
		start.Node, start.Epoch, err = n.replica.Register(ctx, commands.RegisterNode{
			Cluster: cluster, Node: wanted.number, Previous: wanted.previous, Incarnation: start.Incarnation, Level: commands.Level, Release: version,
			Address: n.address,
		})
		return err
	})
	if err != nil {
		return blobwal.Identity{}, err
	}
	n.standing.now.CompareAndSwap(nil, &start) // unless it registered anew already
	// At once: a start that fails from here on must not take a new number next time.
	if err := rememberNode(folder, start.Node, start.Incarnation); err != nil {
		return blobwal.Identity{}, err
	}
	identity := identityOf(cluster, &start)
	err = n.patiently(ctx, func() error { return blobwal.WriteMarker(ctx, n.bucket, identity) })
	if err != nil {
		return blobwal.Identity{}, err
	}
	return identity, n.patiently(ctx, func() error { return n.replica.KeepMarks(ctx) })
}

// putDeadline is how long a segment is tried to be stored. With the log's own
// timeout it stays below [engine.Config.AppendTimeout], so that an append whose
// segment was not stored is told so, and not that nobody knows.
const putDeadline = 20 * time.Second

func (n *node) startEngine(c *config, identity blobwal.Identity, now func() time.Time) error {
	var err error
	n.cache, err = blockcache.New(blockcache.Config{
		Bucket: n.bucket, Cluster: identity.Cluster, Peers: n.peersOf(c, identity.Cluster), TailBytes: int(c.cacheBytes / 2), BlockBytes: int(c.cacheBytes / 2), Logger: n.logger,
	})
	if err != nil {
		return err
	}
	afterPut, afterCommit, err := failpoints()
	if err != nil {
		return err
	}
	n.engine, err = engine.New(engine.Config{
		Replica: n.replica, Hub: n.hub, Cache: n.cache, Logger: n.logger, Now: now, LocalReads: c.reads == "local", InFlightBytes: c.inFlight(),
		MaxExtents: c.maxExtents,
		Writer: blobwal.WriterConfig{
			Bucket: n.bucket, Identity: identity, Interval: c.walInterval, Pace: c.walPace, Slots: c.walUploads, Hedge: c.walHedge == "on",
			Deadline: putDeadline, Logger: n.logger,
			MaxAppendBytes: int(c.maxAppend()), BacklogBytes: int(c.inFlight()), Observe: n.seals.observe,
		},
		AfterPut: afterPut, AfterCommit: afterCommit,
	})
	return err
}

func (n *node) startUpkeep(c *config, identity blobwal.Identity) error {
	jobs := upkeep.Config{
		Replica: n.replica, Leases: n.log, Bucket: n.bucket, Cache: n.cache, Segments: n.engine, Identity: identity, Logger: n.logger,
		Retention: c.retention(), Bandwidth: c.compactRate,
		Grace: 3 * engine.DefaultStaleLimit, Nodes: n.log, NodeTimeout: c.nodeTimeout,
	}
	hastenUpkeep(&jobs)
	var err error
	n.upkeep, err = upkeep.New(jobs)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.keepCombining(ctx)
	n.background.Go(func() { n.keepActivating(ctx) })
	n.background.Go(func() { n.upkeep.Run(ctx) })
	n.background.Go(func() { n.heartbeat(ctx, min(heartbeatEvery, c.nodeTimeout/beatsPerTimeout)) })
	n.background.Go(func() { n.probe(ctx) })
	n.background.Go(func() { n.followStanding(ctx, c, identity.Cluster) })
	return nil
}

// stop takes the node apart. What was taken finishes within ctx.
func (n *node) stop(ctx context.Context) {
	n.cancel()
	n.background.Wait()
	var errs []error
	if n.engine != nil {
		errs = append(errs, n.engine.Close(ctx))
	}
	if n.replica != nil {
		n.depart(ctx)
		n.replica.Close()
	}
	if n.combiner.local != nil {
		n.combiner.local.Close()
	}
	if n.cache != nil {
		n.cache.Close()
	}
	if n.peers != nil {
		n.peers.Close()
	}
	if n.bucket != nil {
		errs = append(errs, n.bucket.Close())
	}
	if n.log != nil {
		errs = append(errs, n.log.Close())
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	if n.temporary != "" {
		errs = append(errs, os.RemoveAll(n.temporary))
	}
	if err := errors.Join(errs...); err != nil {
		n.logger.Warn("not everything ended cleanly", "error", err)
	}
}
