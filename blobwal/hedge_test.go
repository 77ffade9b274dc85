package blobwal

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/faultbucket"
)

const (
	usual    = 20 * time.Millisecond
	straggle = 500 * time.Millisecond
)

// late is a plan in which puts take the usual time, and those of one key, by how
// often it was put, what is said here.
type late struct {
	mu  sync.Mutex
	key string
	of  []faultbucket.Decision
}

func (l *late) set(sequence uint64, of ...faultbucket.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.key, l.of = Key(someone().Cluster, someone().Segment(sequence)), of
}

func (l *late) plan(op faultbucket.Op) faultbucket.Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case op.Kind != faultbucket.Put:
		return faultbucket.Decision{}
	case op.Key == l.key && op.Nth < len(l.of):
		return l.of[op.Nth]
	}
	return faultbucket.Decision{Delay: usual}
}

// hedging is a writer that has seen so many usual puts.
func hedging(t *testing.T, puts int) (*rig, *late) {
	l := &late{}
	r := newRig(t, WriterConfig{Hedge: true, Slots: 2}, l.plan)
	for range puts {
		r.appendOne(t)
	}
	return r, l
}

// appendOne takes an append through and returns how long it took.
func (r *rig) appendOne(t *testing.T) time.Duration {
	t.Helper()
	before, started := len(r.delivered), time.Now()
	require.NoError(t, r.Add(to(1, "a")))
	for {
		synctest.Wait()
		if r.mu.Lock(); len(r.delivered) > before {
			r.mu.Unlock()
			return r.start.Add(r.at[before]).Sub(started)
		}
		r.mu.Unlock()
		time.Sleep(usual / 2)
	}
}

func TestASlowPutIsHedged(t *testing.T) {
	after := usual // a hedge begins at twice the usual
	for name, test := range map[string]struct {
		puts []faultbucket.Decision
		want time.Duration
		won  uint64
	}{
		"the hedge is first":               {puts: decisions(straggle, usual), want: 2*after + usual, won: 1},
		"the first is first":               {puts: decisions(50*time.Millisecond, usual), want: 50 * time.Millisecond},
		"both are slow":                    {puts: decisions(straggle, time.Second), want: straggle},
		"the first is lost, and was there": {puts: []faultbucket.Decision{{Delay: 50 * time.Millisecond, After: lost}, {Delay: usual}}, want: 2*after + usual, won: 1},
		"the first fails":                  {puts: []faultbucket.Decision{{Delay: 50 * time.Millisecond, Before: lost}, {Delay: usual}}, want: 2*after + usual, won: 1},
		"the hedge fails":                  {puts: []faultbucket.Decision{{Delay: straggle}, {Before: lost}}, want: straggle},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, l := hedging(t, hedgeAfter)
				l.set(hedgeAfter+1, test.puts...)
				assert.Equal(t, test.want, r.appendOne(t))
				s := r.Stats()
				assert.Equal(t, []uint64{1, test.won, hedgeAfter + 1, 0}, []uint64{s.Hedges, s.HedgesWon, s.Puts, s.PutFailures})
				assert.Equal(t, usual, r.appendOne(t), "the next one is not hedged")
				r.closeNow(t)
				for _, s := range r.delivered {
					require.NoError(t, s.Err)
					_, _, err := ReadObject(t.Context(), r.bucket, s.Key, s.Size)
					require.NoError(t, err)
				}
			})
		})
	}
}

var lost = faultbucket.Lose(faultbucket.Op{Kind: faultbucket.Put})

func decisions(delays ...time.Duration) (out []faultbucket.Decision) {
	for _, d := range delays {
		out = append(out, faultbucket.Decision{Delay: d})
	}
	return out
}

func TestNothingIsHedgedBeforeItIsKnownWhatIsUsual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := hedging(t, hedgeAfter-1)
		l.set(hedgeAfter, decisions(straggle)...)
		assert.Equal(t, straggle, r.appendOne(t))
		r.closeNow(t)
		assert.Zero(t, r.Stats().Hedges)
	})
}

func TestWithoutHedgeNothingIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{}, slow(usual))
		for range 2 * hedgeAfter {
			r.appendOne(t)
		}
		r.faults.SetPlan(slow(straggle))
		assert.Equal(t, straggle, r.appendOne(t))
		r.closeNow(t)
		assert.Equal(t, 2*hedgeAfter+1, r.faults.Count(faultbucket.Put))
	})
}

// Both puts fail: that is one failed try, and the next one is as any.
func TestAHedgedTryThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := hedging(t, hedgeAfter)
		l.set(hedgeAfter+1, faultbucket.Decision{Delay: straggle, Before: lost}, faultbucket.Decision{Delay: straggle, Before: lost})
		assert.Greater(t, r.appendOne(t), 2*usual+straggle+usual)
		r.closeNow(t)
		s := r.Stats()
		assert.Equal(t, []uint64{1, 1, 1, 0}, []uint64{s.Hedges, s.PutFailures, s.Retries, s.HedgesWon})
	})
}

func TestSomebodyElsesObjectEndsBothPuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := hedging(t, hedgeAfter)
		l.set(hedgeAfter+1, decisions(time.Hour, usual)...)
		key := Key(someone().Cluster, someone().Segment(hedgeAfter+1))
		require.NoError(t, r.bucket.Copy(t.Context(), key, r.delivered[0].Key, nil))
		assert.Equal(t, 3*usual, r.appendOne(t))
		expectForeign(t, r.delivered[hedgeAfter].Err, key)
		r.closeNow(t)
	})
}

// A bucket that becomes slow for all is asked for at most a twentieth more, and
// after a while what is slow is usual.
func TestHedgesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := hedging(t, 1000)
		r.faults.SetPlan(slow(straggle))
		for range 1000 {
			r.appendOne(t)
		}
		r.closeNow(t)
		s := r.Stats()
		assert.GreaterOrEqual(t, s.Hedges, uint64(hedgeSaved), "what was saved")
		assert.LessOrEqual(t, s.Hedges, uint64(2*hedgeSaved), "and then what is slow is usual")
		assert.Equal(t, 2000+int(s.Hedges), r.faults.Count(faultbucket.Put))
	})
}

func TestOneInAHundredIsNotFelt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := faultbucket.Random{Seed: 4, Put: usual, Straggle: 0.01, Straggler: straggle}.Plan()
		r := newRig(t, WriterConfig{Hedge: true}, plan)
		stragglers, slow := 0, 0
		for i := range 3000 {
			key := Key(someone().Cluster, someone().Segment(uint64(i+1)))
			if plan(faultbucket.Op{Kind: faultbucket.Put, Key: key}).Delay == straggle {
				stragglers++
			}
			if took := r.appendOne(t); took > 3*usual && i > 2*hedgeAfter {
				slow++
			}
		}
		r.closeNow(t)
		assert.Greater(t, stragglers, 20)
		assert.LessOrEqual(t, slow, 2, "only where the hedge straggled as well")
		assert.InDelta(t, stragglers, r.Stats().HedgesWon, 5)
	})
}

// A driver may be long to notice that a context is done. What waits for it is
// bounded.
func TestLosersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := hedging(t, 1000)
		h := r.hedger
		for range h.most {
			require.True(t, h.begin())
		}
		assert.False(t, h.begin(), "as many as there are slots have not ended")
		h.ended()
		assert.True(t, h.begin())
		r.closeNow(t)
	})
}

func TestCloseBreaksHedgesOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, l := hedging(t, hedgeAfter)
		l.set(hedgeAfter+1, decisions(time.Hour, time.Hour)...)
		require.NoError(t, r.Add(to(1, "a")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Close(ctx), context.DeadlineExceeded)
		assert.Equal(t, uint64(1), r.Stats().Hedges)
		require.Error(t, r.delivered[hedgeAfter].Err)
	})
}
