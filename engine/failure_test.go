package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/engine"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
)

func TestABucketThatTakesNothingIs503AndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(nil)
		n.create(t, "a", "text/plain", "0")
		w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
			if op.Kind == faultbucket.Put {
				return faultbucket.Decision{Before: faultbucket.Fail(op)}
			}
			return faultbucket.Decision{}
		})
		_, err := n.Append(t.Context(), "a", &stream.AppendRequest{Records: records("lost")})
		require.Equal(t, stream.CodeUnavailable, codeOf(t, err))
		require.Error(t, n.Storage(), "readiness fails")
		w.faults.SetPlan(nil)
		require.EqualValues(t, 1, n.append(t, "a", "1").First)
		require.NoError(t, n.Storage())
		require.Equal(t, []string{"0", "1"}, n.read(t, "a", 0, 100))
		require.Zero(t, n.InFlight())
	})
}

func TestLostAnswersOfPutsAndInsertsAreExactlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := w.log.Peer()
		var inserts atomic.Int32
		log.Lost = func(commands.Insert, commands.Inserted) error {
			if inserts.Add(1)%3 == 0 {
				return errors.New("the connection broke")
			}
			return nil
		}
		n := w.startOn(log, nil)
		n.create(t, "a", "text/plain")
		w.faults.SetPlan(func(op faultbucket.Op) faultbucket.Decision {
			if op.Kind == faultbucket.Put && op.Nth == 0 {
				return faultbucket.Decision{After: faultbucket.Lose(op)}
			}
			return faultbucket.Decision{}
		})
		var want []string
		for i := range 12 {
			require.EqualValues(t, i, n.append(t, "a", fmt.Sprint(i)).First)
			want = append(want, fmt.Sprint(i))
		}
		require.Equal(t, want, n.read(t, "a", 0, 1000))
	})
}

func TestALogOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := w.log.Peer()
		var down atomic.Bool
		log.Before = func(_ context.Context, call string) error {
			if down.Load() {
				return fmt.Errorf("%w: no route to the database", commands.ErrNotSent)
			}
			return nil
		}
		n := w.startOn(log, func(c *engine.Config) { c.StaleLimit = time.Second })
		n.create(t, "a", "text/plain", "0", "1")
		down.Store(true)

		c, err := n.Read(t.Context(), "a", stream.ReadRequest{MaxBytes: 1})
		require.NoError(t, err, "records that are applied are still answered")
		require.Positive(t, c.StaleMillis)
		c, err = n.Read(t.Context(), "a", stream.ReadRequest{MaxBytes: 100})
		require.NoError(t, err)
		require.EqualValues(t, 2, c.Next)
		require.False(t, c.UpToDate, "nobody knows")
		_, err = n.Read(t.Context(), "a", stream.ReadRequest{From: stream.At(2), MaxBytes: 100})
		require.Equal(t, stream.CodeUnavailable, codeOf(t, err), "a claim to be up to date is refused")
		_, err = n.Head(t.Context(), "nothing")
		require.Equal(t, stream.CodeUnavailable, codeOf(t, err), "so is a refusal")
		for _, f := range []stream.ForkRequest{{From: "nothing"}, {From: "a", At: at(3)}, {From: "a", At: at(1), Sub: 2}} {
			require.Equal(t, stream.CodeUnavailable, stream.CodeOf(n.forkErr(t, "b", f)), "and one of a fork: %+v", f)
		}
		_, err = n.Append(t.Context(), "a", &stream.AppendRequest{Records: records("x")})
		require.Equal(t, stream.CodeUnavailable, codeOf(t, err), "an append waits, then is refused")
		require.Eventually(t, func() bool {
			_, err := n.Read(t.Context(), "a", stream.ReadRequest{MaxBytes: 1})
			return err != nil && stream.CodeOf(err) == stream.CodeUnavailable
		}, patience, 20*time.Millisecond, "past the staleness limit everything is refused")

		down.Store(false)
		require.Eventually(t, func() bool {
			_, err := n.Append(t.Context(), "a", &stream.AppendRequest{Records: records("2")})
			return err == nil
		}, patience, 20*time.Millisecond, "it recovers alone")
		require.Equal(t, []string{"0", "1", "2"}, n.read(t, "a", 0, 100))
	})
}

func TestOverloadIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t)
	n := w.start(func(c *engine.Config) { c.InFlightBytes = 10_000; c.Writer.Deadline = patience })
	n.create(t, "a", "text/plain")
	hold := w.holdPuts()
	var done sync.WaitGroup
	var refused, accepted atomic.Int32
	for range 50 {
		done.Go(func() {
			_, err := n.Append(context.Background(), "a", &stream.AppendRequest{Records: records(strings.Repeat("x", 1000))})
			switch {
			case err == nil:
				accepted.Add(1)
			case stream.CodeOf(err) == stream.CodeOverloaded:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return refused.Load() > 0 }, patience, time.Millisecond)
	require.LessOrEqual(t, n.InFlight(), int64(10_000))
	close(hold)
	done.Wait()
	require.EqualValues(t, 50, refused.Load()+accepted.Load())
	require.EqualValues(t, accepted.Load(), len(n.read(t, "a", 0, 1<<20)))
	require.Zero(t, n.InFlight())
}

func TestAnAppendThatOutlastsItsCallerIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(func(c *engine.Config) { c.Writer.Deadline = patience })
		n.create(t, "a", "text/plain")
		hold := w.holdPuts()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := n.Append(ctx, "a", &stream.AppendRequest{Records: records("x")})
		require.Equal(t, stream.CodeOutcomeUnknown, codeOf(t, err))
		close(hold)
		require.Eventually(t, func() bool { return n.InFlight() == 0 }, patience, time.Millisecond)
		require.Equal(t, []string{"x"}, n.read(t, "a", 0, 100))
	})
}

func TestTheLogOutOfReachHoldsNobodyForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := w.log.Peer()
		var down atomic.Bool
		log.Before = func(_ context.Context, call string) error {
			if down.Load() && call != "head" {
				return errors.New("the connection broke")
			}
			return nil
		}
		n := w.startOn(log, func(c *engine.Config) { c.AppendTimeout = 200 * time.Millisecond })
		n.create(t, "a", "text/plain", "0")
		down.Store(true)
		require.Equal(t, stream.CodeOutcomeUnknown, codeOf(t, n.Delete(t.Context(), "a")))
		_, err := n.Trim(t.Context(), "a", 1)
		require.Equal(t, stream.CodeUnavailable, codeOf(t, err), "it waited behind the first and was not sent")
		down.Store(false)
		require.Eventually(t, func() bool {
			_, err := n.Head(t.Context(), "a")
			return err != nil && stream.CodeOf(err) == stream.CodeNotFound
		}, patience, 10*time.Millisecond)
	})
}

func TestAForeignSegmentEndsTheNode(t *testing.T) {
	w := newWorld(t)
	var cluster [16]byte
	var id blobwal.Identity
	n := w.start(func(c *engine.Config) { id = c.Writer.Identity; cluster = id.Cluster })
	key := blobwal.Key(cluster, id.Segment(1))
	require.NoError(t, w.bucket.WriteAll(t.Context(), key, []byte("somebody else's"), nil))
	_, err := n.Create(t.Context(), "a", &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}, Records: records("x")})
	require.Equal(t, stream.CodeInternal, codeOf(t, err))
	<-n.replica.Failed()
	require.ErrorContains(t, n.replica.Err(), key)
}

func TestCloseFinishesWhatWasTaken(t *testing.T) {
	w := newWorld(t)
	n := w.start(nil)
	n.create(t, "a", "text/plain")
	var done sync.WaitGroup
	var acked atomic.Int32
	for i := range 50 {
		done.Go(func() {
			if _, err := n.Append(context.Background(), "a", &stream.AppendRequest{Records: records(fmt.Sprint(i))}); err == nil {
				acked.Add(1)
			} else {
				require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
			}
		})
	}
	n.stop()
	done.Wait()
	require.Len(t, w.start(nil).read(t, "a", 0, 1000), int(acked.Load()))
}

// TestExtentsAreBounded: past the budget nothing that adds extents is taken, and
// what is there can still be read.
func TestExtentsAreBounded(t *testing.T) {
	n := newWorld(t).start(func(c *engine.Config) { c.MaxExtents = 16 })
	n.create(t, "a", "text/plain")
	n.create(t, "b", "text/plain")
	var err error
	taken := 0
	for i := range 40 { // alternating, each in a segment of its own
		if _, err = n.Append(t.Context(), []stream.Name{"a", "b"}[i%2], &stream.AppendRequest{Records: records("x")}); err != nil {
			break
		}
		taken++
	}
	require.Equal(t, stream.CodeOverloaded, codeOf(t, err))
	require.Equal(t, 16, taken)
	require.Equal(t, stream.CodeOverloaded, stream.CodeOf(n.forkErr(t, "c", stream.ForkRequest{From: "a"})))
	require.Len(t, n.read(t, "a", 0, 1<<20), 8)
	n.create(t, "empty", "text/plain")
	_, err = n.Append(t.Context(), "empty", &stream.AppendRequest{Close: true})
	require.NoError(t, err, "a close adds no extent")
	_, err = n.Trim(t.Context(), "a", 8)
	require.NoError(t, err)
	n.append(t, "b", "again")
}
