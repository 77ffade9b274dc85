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
	self, epoch := n.replica.Node()
	stats := n.replica.Stats()
	head := stats.Applied + stats.Lag // at least what the log held when it was asked
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
		shown := describeNode(&known, beats, head)
		if known.Node == self && known.Epoch == epoch && !known.Gone {
			shown.Applied, shown.Behind = new(uint64(stats.Applied)), new(uint64(stats.Lag))
		}
		described.Nodes = append(described.Nodes, shown)
	}
	return described, nil
}

// describeNode tells what the log and the last heartbeat of a node say of it.
func describeNode(known *statemachine.Node, beats []commands.Heartbeat, head commands.Index) wire.Node {
	shown := wire.Node{
		Node: uint32(known.Node), Epoch: uint64(known.Epoch), State: wire.NodeSilent,
		Address: known.Address, Release: known.Release, Level: known.Level,
	}
	if known.Gone {
		shown.State = wire.NodeGone
		return shown
	}
	for _, beat := range beats {
		if beat.Node != known.Node || beat.Epoch != known.Epoch {
			continue
		}
		age := max(0, beat.AgeMs)
		shown.Applied, shown.BeatMs = new(uint64(beat.Applied)), &age
		if age <= silentAfter.Milliseconds() {
			shown.State, shown.Behind = wire.NodeLive, new(uint64(max(head, beat.Applied)-beat.Applied))
		}
	}
	return shown
}
