package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
)

// standing is who this process is in the log: since its start, or since it was
// taken for gone and registered anew.
type standing struct {
	now     atomic.Pointer[replica.Start]
	changed chan struct{} // capacity 1: it is another than at the start
	unheard chan struct{} // capacity 1: the same, and no heartbeat said so yet
}

// rejoined is called by the replica, which must not wait.
func (s *standing) rejoined(start replica.Start) {
	s.now.Store(&start)
	for _, waiting := range []chan struct{}{s.changed, s.unheard} {
		select {
		case waiting <- struct{}{}:
		default:
		}
	}
}

// identity is what the segments of a start carry.
func identityOf(cluster commands.ClusterID, s *replica.Start) blobwal.Identity {
	return blobwal.Identity{Cluster: cluster, Node: uint32(s.Node), Epoch: uint64(s.Epoch), Incarnation: s.Incarnation}
}

// followStanding takes the rest of the node along whenever it registered anew:
// the epoch is claimed in the bucket, remembered for the next start, and made that
// of the engine.
func (n *node) followStanding(ctx context.Context, c *config, cluster commands.ClusterID) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.standing.changed:
		}
		start := n.standing.now.Load()
		identity := identityOf(cluster, start)
		if err := n.claim(ctx, identity); err != nil {
			n.replica.End(fmt.Errorf("claim epoch %d: %w", start.Epoch, err))
			return
		}
		if err := rememberNode(c.data, start.Node, start.Incarnation); err != nil {
			n.logger.Warn("the next start may get another node number", "error", err)
		}
		if err := n.engine.Rejoin(ctx, identity); err != nil && ctx.Err() == nil {
			n.replica.End(err)
			return
		}
	}
}

// claim writes an epoch's marker, for as long as it takes: until then nothing is
// stored under it, and requests wait.
func (n *node) claim(ctx context.Context, identity blobwal.Identity) error {
	for {
		err := blobwal.WriteMarker(ctx, n.bucket, identity)
		var foreign *blobwal.MarkerError
		if err == nil || ctx.Err() != nil || errors.As(err, &foreign) {
			return err
		}
		n.logger.Warn("the bucket does not take this node's new epoch; trying again", "epoch", identity.Epoch, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// departTimeout bounds how long a node that ends takes to say so.
const departTimeout = 2 * time.Second

// depart says that this node ends, so that nobody waits for it. A log that is out
// of reach is told by another node, later.
func (n *node) depart(ctx context.Context) {
	if n.standing.now.Load() == nil || n.replica.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, departTimeout)
	defer cancel()
	if err := n.replica.Depart(ctx); err != nil {
		n.logger.Warn("the log was not told that this node ends; another node will see that it is gone", "error", err)
	}
}
