package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/seldom"
)

const (
	// heartbeatEvery is how often a node tells the log that it lives, or
	// beatsPerTimeout times in the time after which it would be taken for gone.
	heartbeatEvery  = 5 * time.Second
	beatsPerTimeout = 6
	// beatAgain is how soon it does so after the log did not take it.
	beatAgain = time.Second
	// probeEvery is how often a bucket that took no segment is tried again
	// while no append does so.
	probeEvery = 2 * time.Second
	// silenceLimit is how long the log may take before the node is not ready.
	silenceLimit = 10 * time.Second
)

// healthy is nil when appends and reads can be expected to work.
func (n *node) healthy() error {
	if err := n.replica.Err(); err != nil {
		return err
	}
	if n.engine.Moving() || n.engine.Identity().Epoch != uint64(n.standing.now.Load().Epoch) {
		return errors.New("this node was taken for gone and registers anew")
	}
	if err := n.engine.Storage(); err != nil {
		return fmt.Errorf("the bucket does not take segments: %w", err)
	}
	stats := n.replica.Stats()
	if stats.Inserting > silenceLimit {
		return fmt.Errorf("the log has not taken a row for %v", stats.Inserting.Round(time.Second))
	}
	if s := n.unwritten.Load(); s != nil && time.Since(s.since) > silenceLimit && stats.Rows == s.rows {
		return fmt.Errorf("the log has taken nothing for %v: %w", time.Since(s.since).Round(time.Second), s.cause)
	}
	if !n.log.Exclusive() && stats.SinceContact > silenceLimit {
		return fmt.Errorf("the log has not answered for %v", stats.SinceContact.Round(time.Second))
	}
	return nil
}

// silence is heartbeats that the log did not take, one after the other.
type silence struct {
	since time.Time
	cause error  // of the last
	rows  uint64 // that this node had inserted when it began
}

// heartbeat tells the log that the node lives, at once when it registered anew, so
// that nobody holds it for silent meanwhile, and finds out whether it takes
// anything: no append does so on a node that is not ready.
func (n *node) heartbeat(ctx context.Context, every time.Duration) {
	outage := seldom.NewOutage(n.logger, nil, "the heartbeat did not reach the log", "heartbeats reach the log again")
	for {
		now := n.standing.now.Load()
		err := n.log.Beat(ctx, commands.Heartbeat{
			Node: now.Node, Epoch: now.Epoch, Incarnation: now.Incarnation, Address: n.address, Release: version, Applied: n.replica.Applied(),
		})
		if ctx.Err() != nil {
			return
		}
		pause := every
		if err != nil {
			outage.Failed("error", err)
			pause = min(every, beatAgain)
		} else {
			outage.Worked()
		}
		n.beaten(err)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-n.standing.unheard:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// beaten notes what came of a heartbeat.
func (n *node) beaten(err error) {
	if err == nil {
		n.unwritten.Store(nil)
		return
	}
	s := silence{since: time.Now(), cause: err, rows: n.replica.Stats().Rows}
	if before := n.unwritten.Load(); before != nil && before.rows == s.rows {
		s.since = before.since
	}
	n.unwritten.Store(&s)
}

// probe finds out whether a bucket that did not take a segment takes objects
// again: a node that is not ready may get no append that would.
func (n *node) probe(ctx context.Context) {
	timer := time.NewTicker(probeEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if n.engine.Storage() == nil {
			continue
		}
		if err := n.replica.Mark(ctx); err == nil {
			n.logger.Info("the bucket takes objects again")
			n.engine.Stored()
		}
	}
}
