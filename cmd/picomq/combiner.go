package main

import (
	"context"
	"fmt"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/replica/combine"
)

// combiner is this node's part in inserting rows for all nodes, which needs that
// they reach each other.
type combiner struct {
	local  *combine.Combiner
	router *combine.Router
}

// combine prepares it; what is returned is nil where nodes do not reach each other.
func (n *node) combine(c *config, now func() time.Time) replica.Combiner {
	if c.clusterListen == "" || n.log.Exclusive() {
		return nil
	}
	n.combiner.local = combine.New(n.log, now)
	n.combiner.router = combine.NewRouter(n.combiner.local, toPeers{n}, n.logger)
	return n.combiner.router
}

// keepCombining takes part in the choice of who inserts for all.
func (n *node) keepCombining(ctx context.Context) {
	if n.combiner.router == nil {
		return
	}
	n.background.Go(func() {
		n.combiner.router.Keep(ctx, n.log, func() commands.Holder {
			node, epoch := n.replica.Node()
			return commands.Holder{Node: node, Epoch: epoch}
		})
	})
}

// toPeers reaches the combiners of other nodes.
type toPeers struct{ node *node }

// Insert implements [combine.Remote].
func (t toPeers) Insert(ctx context.Context, by commands.Holder, in commands.Insert) (commands.Row, error) {
	address := t.node.addressOf(uint32(by.Node), uint64(by.Epoch))
	if address == "" || t.node.peers == nil {
		return commands.Row{}, fmt.Errorf("%w: node %d, which inserts for others, has no address", commands.ErrNotSent, by.Node)
	}
	return t.node.peers.Insert(ctx, address, in)
}
