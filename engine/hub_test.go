package engine

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

func changed(id stream.ID) *statemachine.Outcome {
	return &statemachine.Outcome{Changed: []stream.ID{id}}
}

func woken(c *cohort) bool {
	select {
	case <-c.woken:
		return true
	default:
		return false
	}
}

func TestFollowersAreWokenACohortAtATime(t *testing.T) {
	h := NewHub()
	joined := make([]*cohort, 3*cohortSize)
	for i := range joined {
		joined[i] = h.join(1)
	}
	wakes := func() (n int) {
		for _, c := range joined {
			if woken(c) {
				n++
			}
		}
		return n
	}
	h.Publish(changed(1))
	for turn := range 3 {
		for _, c := range joined[turn*cohortSize : (turn+1)*cohortSize] {
			require.True(t, woken(c))
			h.leave(1, c)
			require.Equal(t, min(turn+2, 3)*cohortSize, wakes(), "the first to leave has woken the next cohort, and no other")
		}
	}
	require.Zero(t, h.size())
}

func TestFollowersOfOtherStreamsSleepOn(t *testing.T) {
	h := NewHub()
	one, other := h.join(1), h.join(1+hubShards)
	h.Publish(changed(1))
	require.True(t, woken(one))
	require.False(t, woken(other))
	h.leave(1, one)
	require.Equal(t, 1, h.size())
	h.leave(1+hubShards, other)
	require.Empty(t, h.shards[1].topics)
}

// TestWhoLeavesHoldsUpNobody lets followers come and go in any order: those that
// were there at a change are all woken as long as the woken ones leave.
func TestWhoLeavesHoldsUpNobody(t *testing.T) {
	const id = 7
	rapid.Check(t, func(t *rapid.T) {
		h := NewHub()
		var waiting []*cohort
		leave := func(i int) {
			h.leave(id, waiting[i])
			waiting = append(waiting[:i], waiting[i+1:]...)
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				for range rapid.IntRange(1, 2*cohortSize).Draw(t, "followers") {
					waiting = append(waiting, h.join(id))
				}
			},
			"leave": func(t *rapid.T) {
				for range rapid.IntRange(0, len(waiting)).Draw(t, "leavers") {
					leave(rapid.IntRange(0, len(waiting)-1).Draw(t, "who"))
				}
			},
			"publish": func(*rapid.T) {
				h.Publish(changed(id))
				require.Zero(t, h.size())
			},
		})
		h.Publish(changed(id))
		for again := true; again; {
			again = false
			for i := len(waiting) - 1; i >= 0; i-- {
				if woken(waiting[i]) {
					leave(i)
					again = true
				}
			}
		}
		require.Empty(t, waiting, "all were woken")
		require.Empty(t, h.shard(id).topics)
	})
}

// BenchmarkWake is a change that a thousand follow: what each costs the hub and
// the scheduler.
func BenchmarkWake(b *testing.B) {
	const followers = 1000
	h := NewHub()
	var ready, following sync.WaitGroup
	ready.Add(followers)
	over := make(chan struct{})
	for range followers {
		following.Go(func() {
			for {
				c := h.join(1)
				ready.Done()
				select {
				case <-c.woken:
				case <-over:
				}
				h.leave(1, c)
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		ready.Wait()
		ready.Add(followers)
		h.Publish(changed(1))
	}
	ready.Wait()
	close(over)
	following.Wait()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/followers, "ns/follower")
}
