package soak

import (
	"context"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
)

// departOthers says of all other nodes that they are gone, as the holder of the
// lease does when it hears nothing of them. Those that live register anew.
func (l *life) departOthers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	self, _ := l.replica.Node()
	for _, n := range l.replica.View().Nodes() {
		if n.Node == self || n.Gone {
			continue
		}
		if _, err := l.replica.Propose(ctx, &commands.Depart{Node: n.Node, Epoch: n.Epoch}); err == nil {
			l.counted.departures.Add(1)
		}
	}
}

// rejoined takes the engine along when the node registered anew, as cmd/picomq
// does. It is called by the replica's loop, possibly before there is an engine.
func (l *life) rejoined(s replica.Start) {
	select {
	case <-l.starts: // that one is over
	default:
	}
	l.starts <- s
}

// follow claims each new epoch in the bucket and goes on under it.
func (l *life) follow(ctx context.Context, cluster [16]byte) {
	for {
		var s replica.Start
		select {
		case s = <-l.starts:
		case <-ctx.Done():
			return
		}
		identity := blobwal.Identity{Cluster: cluster, Node: uint32(s.Node), Epoch: uint64(s.Epoch), Incarnation: s.Incarnation}
		for blobwal.WriteMarker(ctx, l.bucket, identity) != nil {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
		if l.Rejoin(ctx, identity) == nil {
			l.counted.rejoins.Add(1)
		}
	}
}
