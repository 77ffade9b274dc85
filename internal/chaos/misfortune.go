package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// oddsOfPair is how seldom, one in so many, something fails while something else
// does.
const oddsOfPair = 2

// misfortune breaks a cluster until its context ends, and leaves it whole. One
// node at least is spared at any time.
type misfortune struct {
	cluster *cluster
	random  *rand.Rand // of its goroutine
	deck    deck
	busy    [places]bool
	healed  chan place // is whole again
	under   sync.WaitGroup
	counts  [faults]int
	pairs   int
}

func newMisfortune(c *cluster, random *rand.Rand) *misfortune {
	return &misfortune{cluster: c, random: random, healed: make(chan place, places)}
}

// stroke is one thing to go wrong. It is drawn whole, whether or not it can befall
// just now, so that the strokes of a seed are the same in every run.
type stroke struct {
	pause time.Duration // before it
	fault fault
	seat  place  // unless the fault finds its victim by itself
	pair  bool   // also while something else fails
	seed  uint64 // of the rest
}

func (m *misfortune) draw() stroke {
	return stroke{
		pause: 300*time.Millisecond + time.Duration(m.random.Int64N(int64(1200*time.Millisecond))),
		fault: m.deck.deal(m.random), seat: place(m.random.IntN(nodes)), pair: m.random.IntN(oddsOfPair) == 0, seed: m.random.Uint64(),
	}
}

// reign runs until ctx ends.
func (m *misfortune) reign(ctx context.Context) {
	for next := m.draw(); sleep(ctx, next.pause); next = m.draw() {
		m.collect()
		if where, may := m.victim(ctx, &next); may {
			m.strike(ctx, &next, where)
		}
	}
	m.under.Wait()
}

// collect learns what is whole again.
func (m *misfortune) collect() {
	for {
		select {
		case where := <-m.healed:
			m.busy[where] = false
		default:
			return
		}
	}
}

// victim is what the stroke befalls, if it may now.
func (m *misfortune) victim(ctx context.Context, next *stroke) (where place, may bool) {
	if slices.Contains(m.busy[:], true) && !next.pair {
		return 0, false
	}
	switch {
	case next.fault == databaseCrash:
		where = theDatabase
	case next.fault == bucketDown:
		where = theBucket
	case m.spared() == 1:
		return 0, false
	case next.fault.ofInserter():
		s, err := m.cluster.inserter(ctx)
		if err != nil || s == nil { // a database that does not answer knows none
			return 0, false
		}
		where = place(s.number - 1)
	default:
		where = next.seat
	}
	return where, !m.busy[where]
}

// spared is how many nodes are whole.
func (m *misfortune) spared() int {
	whole := 0
	for _, busy := range m.busy[:nodes] {
		if !busy {
			whole++
		}
	}
	return whole
}

// strike lets a fault befall something, and heals it in the background.
func (m *misfortune) strike(ctx context.Context, next *stroke, where place) {
	f := next.fault
	if slices.Contains(m.busy[:], true) {
		m.pairs++
	}
	m.busy[where] = true
	m.counts[f]++
	m.under.Go(func() {
		m.cluster.begin(f, where)
		if err := m.cluster.befall(ctx, f, where, rand.New(rand.NewPCG(next.seed, 0))); err != nil {
			m.cluster.fail(err)
		}
		m.cluster.end(f, where)
		m.healed <- where
	})
}
