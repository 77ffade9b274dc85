package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/peer"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/replica/combine"
)

// combiner is this node's part in inserting rows for all nodes, which needs that
// they reach each other.
type combiner struct {
	local  *combine.Combiner
	router *combine.Router
	wait   prometheus.Histogram
}

// combine prepares it; what is returned is nil where nodes do not reach each other.
func (n *node) combine(c *config) replica.Combiner {
	if c.clusterListen == "" || n.log.Exclusive() {
		return nil
	}
	n.combiner.local = combine.New(n.log)
	n.combiner.wait = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "picomq_log_insert_wait_seconds", Help: "Time that whoever inserts for all took for an insert of this node.",
		Buckets: prometheus.ExponentialBucketsRange(0.0001, 10, 16),
	})
	n.combiner.router = combine.NewRouter(n.combiner.local, toPeers{n}, combine.RouterConfig{
		Logger: n.logger, Observe: func(took time.Duration) { n.combiner.wait.Observe(took.Seconds()) },
	})
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
	if address == "" || t.node.peers == nil { // who had the lease has an address, as long as it is there
		return commands.Row{}, fmt.Errorf("%w: %w: node %d", commands.ErrNotSent, combine.ErrGone, by.Node)
	}
	row, err := t.node.peers.Insert(ctx, address, in)
	if errors.Is(err, peer.ErrRefused) {
		err = fmt.Errorf("%w: %w", combine.ErrRefused, err)
	}
	return row, err
}

// registerCombiner says who inserts this node's rows, and whose rows it inserts.
func (n *node) registerCombiner(r *prometheus.Registry) {
	if n.combiner.router == nil {
		return
	}
	local, router := n.combiner.local.Stats, n.combiner.router.Stats
	r.MustRegister(n.combiner.wait)
	counter(r, "log_combined_rows_total", "Rows this node inserted while it inserts for all.", func() float64 { return float64(local().Rows) })
	counter(r, "log_combined_inserts_total", "Inserts of all nodes in these rows.", func() float64 { return float64(local().Parts) })
	counter(r, "log_inserted_for_others_total", "Those of other nodes.", func() float64 { return float64(local().Others) })
	counter(r, "log_inserted_by_others_total", "Inserts of this node that another node put into a row.", func() float64 { return float64(router().ByOthers) })
	counter(r, "log_insert_fallbacks_total", "Inserts for which nobody answered in time, so that this node inserted by itself.", func() float64 { return float64(router().Alone) })
	gauge(r, "log_combiner_waiting", "Inserts that wait here for the row under way to end.", func() float64 { return float64(n.combiner.local.Waiting()) })
}
