package main

import (
	"context"
	"encoding/hex"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// silentAfter is how old the last heartbeat of a live node may be.
const silentAfter = 3 * heartbeatEvery

// describe tells what the log knows of the cluster. The nodes are those of this
// node's view after it caught up.
func (n *node) describe(ctx context.Context, label string) (wire.Cluster, error) {
	unavailable := func(err error) (wire.Cluster, error) {
		return wire.Cluster{}, stream.Errorf(stream.CodeUnavailable, "the log is out of reach: %w", err)
	}
	if err := n.replica.Sync(ctx); err != nil {
		return unavailable(err)
	}
	leases, err := n.log.Leases(ctx)
	if err != nil {
		return unavailable(err)
	}
	beats, err := n.log.Heartbeats(ctx)
	if err != nil {
		return unavailable(err)
	}
	view := n.replica.View()
	id, _ := view.Cluster()
	self, _ := n.replica.Node()
	head := n.replica.Applied() // at least what the log held when it was asked
	described := wire.Cluster{
		ID: hex.EncodeToString(id[:]), Label: label, Head: uint64(head), Level: view.Level(), Release: version, Node: uint32(self),
		Leases: make([]wire.Lease, 0, len(leases)), Nodes: []wire.Node{},
	}
	for _, l := range leases {
		described.Leases = append(described.Leases, wire.Lease{
			Name: l.Name, Node: uint32(l.Holder.Node), Epoch: uint64(l.Holder.Epoch), ExpiresMs: l.LeftMs,
		})
	}
	for _, known := range view.Nodes() {
		described.Nodes = append(described.Nodes, describeNode(&known, beats, head))
	}
	return described, nil
}

func describeNode(known *statemachine.Node, beats []commands.Heartbeat, head commands.Index) wire.Node {
	shown := wire.Node{
		Node: uint32(known.Node), Epoch: uint64(known.Epoch), State: wire.NodeSilent,
		Address: known.Address, Release: known.Release, Level: known.Level,
	}
	for _, beat := range beats {
		if beat.Node != known.Node || beat.Epoch != known.Epoch {
			continue
		}
		applied, lag, age := uint64(beat.Applied), uint64(max(head, beat.Applied)-beat.Applied), max(0, beat.AgeMs)
		shown.Applied, shown.Lag, shown.BeatMs = &applied, &lag, &age
		if age <= silentAfter.Milliseconds() {
			shown.State = wire.NodeLive
		}
	}
	if known.Gone {
		shown.State = wire.NodeGone
	}
	return shown
}
