package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// fault is a kind of fault.
type fault uint8

const (
	killed         fault = iota // kill -9, and a start at once or soon
	terminated                  // SIGTERM, and a start
	frozen                      // SIGSTOP for longer than every timeout, then SIGCONT
	inserterFrozen              // the same of the node that inserts rows for all
	hiccup                      // SIGSTOP for a moment
	cut                         // every connection to the database breaks
	held                        // no byte passes between node and database for a while
	inserterHeld                // the same of the node that inserts rows for all
	peersCut                    // every connection of other nodes to this one breaks
	deaf                        // no byte passes on connections of other nodes to this one for a while
	inserterDeaf                // the same of the node that inserts rows for all
	databaseCrash               // the database is stopped at once, and started at once or soon
	bucketDown                  // every operation of the bucket fails for a while, on all nodes
	faults
)

func (f fault) String() string {
	return [faults]string{
		"kill -9", "SIGTERM", "frozen", "inserter frozen", "hiccup", "cut", "held", "inserter held",
		"peers cut", "deaf", "inserter deaf", "database crash", "bucket down",
	}[f]
}

// odds are how often each fault is dealt until the deck is dealt out.
var odds = [faults]int{
	killed: 4, terminated: 1, frozen: 2, inserterFrozen: 3, hiccup: 3, cut: 3, held: 2, inserterHeld: 2,
	peersCut: 1, deaf: 1, inserterDeaf: 2, databaseCrash: 3, bucketDown: 2,
}

// ofInserter tells faults that befall the node that inserts rows for all.
func (f fault) ofInserter() bool {
	return f == inserterFrozen || f == inserterHeld || f == inserterDeaf
}

// place is what a fault befalls: a seat, by its place in the cluster, or one of
// the two that all nodes share.
type place int

const (
	theDatabase place = nodes + iota
	theBucket
	places
)

func (p place) String() string {
	switch p {
	case theDatabase:
		return "database"
	case theBucket:
		return "bucket"
	default:
		return fmt.Sprintf("node %d", p+1)
	}
}

// deck deals faults in random order, so that none is missing for long.
type deck struct{ left []fault }

func (d *deck) deal(random *rand.Rand) fault {
	if len(d.left) == 0 {
		for f, n := range odds {
			d.left = append(d.left, slices.Repeat([]fault{fault(f)}, n)...)
		}
		random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	last := len(d.left) - 1
	f := d.left[last]
	d.left = d.left[:last]
	return f
}

// longestTimeout is above every timeout that a node has, those of an append
// included.
const longestTimeout = 32 * time.Second

// befall is a fault from its begin to its end. The end of ctx hastens it.
func (c *cluster) befall(ctx context.Context, f fault, where place, random *rand.Rand) error {
	lasts := func(least, most time.Duration) {
		sleep(ctx, least+time.Duration(random.Int64N(int64(most-least))))
	}
	switch f {
	case databaseCrash:
		return c.crashDatabase(ctx, func() { sometimes(random, func() { lasts(0, 2*time.Second) }) })
	case bucketDown:
		return c.loseBucket(func() { lasts(500*time.Millisecond, 4*time.Second) })
	default:
		return c.seats[where].befall(ctx, f, lasts, random)
	}
}

// befall is the same for faults of one node.
func (s *seat) befall(ctx context.Context, f fault, lasts func(least, most time.Duration), random *rand.Rand) error {
	switch f {
	case killed, terminated:
		end := s.kill
		if f == terminated {
			end = s.terminate
		}
		if err := end(); err != nil {
			return err
		}
		sometimes(random, func() { lasts(0, 2*time.Second) })
		return s.start(context.WithoutCancel(ctx), random)
	case frozen, inserterFrozen:
		err := s.freeze()
		if random.IntN(6) == 0 {
			lasts(longestTimeout, longestTimeout+2*time.Second)
		} else {
			lasts(nodeTimeout+time.Second, nodeTimeout+4*time.Second)
		}
		return errors.Join(err, s.thaw())
	case hiccup:
		err := s.freeze()
		lasts(100*time.Millisecond, 3*time.Second)
		return errors.Join(err, s.thaw())
	case held, inserterHeld:
		s.hold()
		lasts(500*time.Millisecond, nodeTimeout+3*time.Second)
		sometimes(random, s.link.cut)
		s.release()
	case deaf, inserterDeaf:
		s.peers.hold()
		lasts(500*time.Millisecond, nodeTimeout+3*time.Second)
		sometimes(random, s.peers.cut)
		s.peers.release()
	case peersCut:
		s.peers.cut()
	default:
		s.link.cut()
	}
	return nil
}

// sometimes is one time in two.
func sometimes(random *rand.Rand, do func()) {
	if random.IntN(2) == 0 {
		do()
	}
}

// sleep waits, and tells whether ctx lives.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
