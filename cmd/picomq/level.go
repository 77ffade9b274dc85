package main

import (
	"context"
	"time"

	"github.com/picomq/picomq/commands"
)

// activateEvery is how often a node looks whether the last one that does not
// understand its feature level is gone.
const activateEvery = time.Second

// keepActivating switches on the feature level that this binary brings as soon as
// every node that is not gone understands it: at the start, or when the last older
// one has left or was taken for gone.
func (n *node) keepActivating(ctx context.Context) {
	tick := time.NewTicker(activateEvery)
	defer tick.Stop()
	for n.replica.View().Level() < commands.Level {
		if n.understood() {
			if err := n.activate(ctx); err != nil && ctx.Err() == nil {
				n.logger.Warn("the feature level was not switched on; it is tried again", "level", commands.Level, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// understood tells whether every node that is not gone understands this binary's
// level. Apply asks that again.
func (n *node) understood() bool {
	for _, other := range n.replica.View().Nodes() {
		if !other.Gone && other.Level < commands.Level {
			return false
		}
	}
	return true
}

func (n *node) activate(ctx context.Context) error {
	if _, err := n.replica.Propose(ctx, &commands.Activate{Level: commands.Level, Release: version}); err != nil {
		return err
	}
	if n.replica.View().Level() == commands.Level {
		n.logger.Info("a feature level is switched on: older releases cannot start any more", "level", commands.Level, "release", version)
	}
	return nil
}
