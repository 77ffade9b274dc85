package crash

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// killKind says where the server is when it dies.
type killKind uint8

const (
	killOutside     killKind = iota // anywhere, by kill -9 from outside
	killStarting                    // the same, before it is ready
	killAfterPut                    // between the durable put and the proposal of its commit
	killAfterCommit                 // between the applied commit and its answers
	killKinds
)

func (k killKind) String() string {
	return [killKinds]string{"outside", "while starting", "after put", "after commit"}[k]
}

// kill is the planned death of one server.
type kill struct {
	kind  killKind
	count int           // acknowledgements or passes of the failpoint before it
	delay time.Duration // and how long after that, for those from outside
}

// Bounds of one life: acknowledgements before a kill from outside, and
// segments before one by failpoint. They bound what a run stores.
const (
	mostAcknowledgements = 400
	mostPasses           = 50
)

// plan draws n kills: a third of each failpoint and a third from outside, in
// random order.
func plan(random *rand.Rand, n int) []kill {
	kills := make([]kill, n)
	for i := range kills {
		k := &kills[i]
		switch i % 3 {
		case 0:
			*k = kill{kind: killAfterPut, count: 1 + random.IntN(mostPasses)}
		case 1:
			*k = kill{kind: killAfterCommit, count: 1 + random.IntN(mostPasses)}
		case 2:
			*k = kill{
				kind: killOutside, count: 1 + random.IntN(mostAcknowledgements),
				delay: time.Duration(random.Int64N(int64(3 * time.Millisecond))),
			}
			if i%9 == 8 {
				*k = kill{kind: killStarting, delay: time.Duration(random.Int64N(int64(100 * time.Millisecond)))}
			}
		}
	}
	random.Shuffle(n, func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	return kills
}

// environment arms the failpoint of a server that is to kill itself.
func (k kill) environment() []string {
	switch k.kind {
	case killAfterPut:
		return []string{fmt.Sprintf("PICOMQ_FAILPOINT=after-put:%d", k.count)}
	case killAfterCommit:
		return []string{fmt.Sprintf("PICOMQ_FAILPOINT=after-commit:%d", k.count)}
	default:
		return nil
	}
}

// newRandom is the source of everything drawn from a seed, other than by
// writers.
func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
