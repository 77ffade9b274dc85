package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// fault is a kind of fault.
type fault uint8

const (
	none           fault = iota
	killed               // kill -9, and a start at once or soon
	terminated           // SIGTERM, and a start
	frozen               // SIGSTOP for longer than every timeout, then SIGCONT
	inserterFrozen       // the same of the node that inserts rows for all
	hiccup               // SIGSTOP for a moment
	cut                  // every connection to the database breaks
	held                 // no byte passes between node and database for a while
	inserterHeld         // the same of the node that inserts rows for all
	databaseCrash        // the database is stopped at once, and started
	faults
)

func (f fault) String() string {
	return [faults]string{
		"no fault", "kill -9", "SIGTERM", "frozen", "inserter frozen", "hiccup", "cut", "held", "inserter held", "database crash",
	}[f]
}

// odds are how often each fault is dealt until the deck is dealt out.
var odds = [faults]int{killed: 4, terminated: 1, frozen: 2, inserterFrozen: 3, hiccup: 3, cut: 3, held: 2, inserterHeld: 2, databaseCrash: 2}

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

// oddsOfPair is how seldom, one in so many, a second node fails while one does.
const oddsOfPair = 4

// misfortune breaks a cluster until its context ends, and leaves it whole. One
// node at least is spared at any time, but by crashes of the database.
type misfortune struct {
	cluster *cluster
	random  *rand.Rand // of its goroutine
	deck    deck
	busy    [nodes]bool
	healed  chan int // a seat that is whole again
	under   sync.WaitGroup
	counts  [faults]int
	pairs   int
}

func newMisfortune(c *cluster, random *rand.Rand) *misfortune {
	return &misfortune{cluster: c, random: random, healed: make(chan int, nodes)}
}

// stroke is one thing to go wrong. It is drawn whole, whether or not it can befall
// just now, so that the strokes of a seed are the same in every run.
type stroke struct {
	pause time.Duration // before it
	fault fault
	seat  int    // unless the fault finds its victim by itself
	pair  bool   // also while another node fails
	seed  uint64 // of the rest
}

func (m *misfortune) draw() stroke {
	return stroke{
		pause: 300*time.Millisecond + time.Duration(m.random.Int64N(int64(1200*time.Millisecond))),
		fault: m.deck.deal(m.random), seat: m.random.IntN(nodes), pair: m.random.IntN(oddsOfPair) == 0, seed: m.random.Uint64(),
	}
}

// reign runs until ctx ends.
func (m *misfortune) reign(ctx context.Context) {
	for next := m.draw(); sleep(ctx, next.pause); next = m.draw() {
		m.collect()
		if next.fault == databaseCrash {
			m.strike(next.fault)
			if err := m.cluster.crashDatabase(ctx); err != nil {
				m.cluster.fail(err)
			}
			continue
		}
		if s := m.victim(ctx, &next); s != nil {
			m.strike(next.fault)
			m.hit(ctx, &next, s)
		}
	}
	m.under.Wait()
}

func (m *misfortune) strike(f fault) {
	m.counts[f]++
	m.cluster.stillness.begin(f)
}

// collect learns which seats are whole again.
func (m *misfortune) collect() {
	for {
		select {
		case i := <-m.healed:
			m.busy[i] = false
		default:
			return
		}
	}
}

// victim is a seat that may fail now; nil for none.
func (m *misfortune) victim(ctx context.Context, next *stroke) *seat {
	hit := 0
	for _, busy := range m.busy {
		if busy {
			hit++
		}
	}
	if hit >= nodes-1 || hit > 0 && !next.pair {
		return nil
	}
	s := m.cluster.seats[next.seat]
	if next.fault == inserterFrozen || next.fault == inserterHeld {
		s, _ = m.cluster.inserter(ctx) // a database that does not answer knows none
	}
	if s == nil || m.busy[s.number-1] {
		return nil
	}
	if hit > 0 {
		m.pairs++
	}
	m.busy[s.number-1] = true
	return s
}

// hit lets a fault befall a seat, and heals it in the background.
func (m *misfortune) hit(ctx context.Context, next *stroke, s *seat) {
	random, f := rand.New(rand.NewPCG(next.seed, 0)), next.fault
	m.under.Go(func() {
		if err := befall(ctx, f, s, random); err != nil {
			m.cluster.fail(err)
		}
		m.healed <- s.number - 1
	})
}

// befall is a fault from its begin to its end. The end of ctx hastens it.
func befall(ctx context.Context, f fault, s *seat, random *rand.Rand) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	lasts := func(least, most time.Duration) {
		sleep(ctx, least+time.Duration(random.Int64N(int64(most-least))))
	}
	switch f {
	case killed, terminated:
		end := s.kill
		if f == terminated {
			end = s.terminate
		}
		if err := end(); err != nil {
			return err
		}
		if random.IntN(2) == 0 {
			lasts(0, 2*time.Second)
		}
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
		if random.IntN(2) == 0 {
			s.link.cut()
		}
		s.release()
		return nil
	default:
		s.link.cut()
		return nil
	}
}

// longestTimeout is above every timeout that a node has, those of an append
// included.
const longestTimeout = 32 * time.Second

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
