package blobwal

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
)

// TestOrderModel ends uploads in any order and compares what is delivered with
// the rule itself: a segment may be delivered exactly when it is uploaded and
// every earlier one that shares a stream with it was delivered.
func TestOrderModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOrder()
		var all, pending []*segment
		delivered := make(map[*segment]bool)
		mayGo := func(s *segment) bool {
			for _, earlier := range all {
				if earlier == s {
					return s.uploaded && !delivered[s]
				}
				if !delivered[earlier] && shareStream(earlier, s) {
					return false
				}
			}
			return false
		}
		t.Repeat(map[string]func(*rapid.T){
			"seal": func(t *rapid.T) {
				s := &segment{}
				for _, id := range rapid.SliceOfNDistinct(rapid.Uint64Range(1, 6), 1, 3, rapid.ID[uint64]).Draw(t, "streams") {
					s.streams = append(s.streams, orderKey{id: stream.ID(id)})
				}
				all, pending = append(all, s), append(pending, s)
				o.enter(s)
			},
			"upload": func(t *rapid.T) {
				if len(pending) == 0 {
					return
				}
				i := rapid.IntRange(0, len(pending)-1).Draw(t, "which")
				s := pending[i]
				pending = append(pending[:i:i], pending[i+1:]...)
				o.ended(s)
			},
			"deliver": func(t *rapid.T) {
				s := o.next()
				if s == nil {
					return
				}
				require.True(t, mayGo(s), "delivered too early")
				delivered[s] = true
				o.delivered(s)
			},
			"": func(t *rapid.T) {
				ready := 0
				for _, s := range all {
					if mayGo(s) {
						ready++
					}
				}
				require.Len(t, o.ready, ready, "those that may go, no more and no less")
				require.Equal(t, len(all)-len(delivered), o.undelivered)
				require.LessOrEqual(t, len(o.last), 6)
			},
		})
		for _, s := range pending {
			o.ended(s)
		}
		for s := o.next(); s != nil; s = o.next() {
			o.delivered(s)
		}
		require.Zero(t, o.undelivered)
		require.Empty(t, o.last, "nothing is kept of what is delivered")
	})
}

func shareStream(a, b *segment) bool {
	for _, x := range a.streams {
		for _, y := range b.streams {
			if x == y {
				return true
			}
		}
	}
	return false
}

// TestStreamsKeepTheirOrder runs the whole writer against random latencies,
// failures and lost answers: whatever the order of the puts, each stream's
// appends are delivered once and in the order they were added.
func TestStreamsKeepTheirOrder(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan := faultbucket.Random{
					Seed: seed, Latency: time.Millisecond, Jitter: 20 * time.Millisecond, Straggle: 0.01, Straggler: 500 * time.Millisecond,
					PutBefore: 0.1, PutAfter: 0.1, GetBefore: 0.1,
				}.Plan()
				r := newRig(t, WriterConfig{Slots: 4, MaxAppends: 8, Interval: time.Millisecond}, plan)
				dice := rand.New(rand.NewPCG(seed, 0))
				added := make(map[orderKey][]string)
				for i := range 400 {
					a := to(1+dice.Uint64N(8), fmt.Sprint(i))
					if dice.IntN(10) == 0 {
						a = creating(stream.Name(fmt.Sprint("new", dice.IntN(3))), fmt.Sprint(i))
						a.JSON = dice.IntN(2) == 0
					}
					require.NoError(t, r.Add(a))
					key := a.key().orderKey
					added[key] = append(added[key], fmt.Sprint(i))
					time.Sleep(time.Duration(dice.IntN(2000)) * time.Microsecond)
				}
				r.closeNow(t)
				requireOrder(t, added, r.delivered)
			})
		})
	}
}

// TestManyCallers adds from many goroutines, each to a stream of its own and
// with its own patience for a full backlog.
func TestManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := faultbucket.Random{Seed: 5, Latency: time.Millisecond, Jitter: 5 * time.Millisecond, PutAfter: 0.2}.Plan()
		r := newRig(t, WriterConfig{Interval: time.Millisecond, BacklogBytes: 2_000}, plan)
		var mu sync.Mutex
		added := make(map[orderKey][]string)
		refused := 0
		var wait sync.WaitGroup
		for caller := range uint64(16) {
			wait.Go(func() {
				for i := range 50 {
					a := to(caller+1, fmt.Sprint(i))
					for r.Add(a) != nil {
						mu.Lock()
						refused++
						mu.Unlock()
						time.Sleep(time.Millisecond)
					}
					mu.Lock()
					added[a.key().orderKey] = append(added[a.key().orderKey], fmt.Sprint(i))
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		r.closeNow(t)
		require.Positive(t, refused)
		require.Zero(t, r.Stats().Backlog)
		require.Equal(t, uint64(16*50), r.Stats().Records)
		requireOrder(t, added, r.delivered)
	})
}

func requireOrder(t *testing.T, added map[orderKey][]string, delivered []*Sealed) {
	t.Helper()
	got := make(map[orderKey][]string)
	for _, s := range delivered {
		require.NoError(t, s.Err)
		for _, a := range s.Appends {
			key := a.key().orderKey
			got[key] = append(got[key], string(a.Records[0].Body))
		}
		require.Equal(t, expected(s.Appends), decodeAll(t, s.Object))
	}
	for key, want := range added {
		if key.id == 0 { // the two types a name is created with are apart within a segment
			require.ElementsMatch(t, want, got[key])
			continue
		}
		require.Equal(t, want, got[key])
	}
}
