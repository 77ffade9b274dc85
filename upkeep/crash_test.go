package upkeep_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/upkeep"
)

// fault is a crash at one call that maintenance makes, counted from 1: before or
// after the call did what it was to do. From then on every call fails.
type fault struct {
	at      int64
	after   bool
	calls   atomic.Int64
	crashed atomic.Bool
	cancel  context.CancelFunc
}

var errCrashed = errors.New("the process is gone")

// hit counts a call and tells whether it is the one, or comes after it.
func (f *fault) hit() bool {
	if f.calls.Add(1) == f.at {
		f.crashed.Store(true)
		f.cancel()
	}
	return f.crashed.Load()
}

// before is the log's hook.
func (f *fault) before(call string) error {
	if f == nil {
		return nil
	}
	if f.crashed.Load() || counted[call] && !f.after && f.hit() {
		return errCrashed
	}
	return nil
}

// counted are the calls to the log that change it or begin something; of others
// a replica makes some by itself.
var counted = map[string]bool{"append": true, "acquire lease": true, "announce archive": true, "advance archive": true, "truncate": true}

// lost is the log's hook after a call changed it.
func (f *fault) lost() error {
	if f != nil && f.after && f.hit() {
		return errCrashed
	}
	return nil
}

// plan is the bucket's.
func (f *fault) plan(op faultbucket.Op) (d faultbucket.Decision) {
	switch {
	case f.crashed.Load() || !f.after && f.hit():
		d.Before = faultbucket.Fail(op)
	case f.after && f.hit():
		d.After = faultbucket.Lose(op)
	}
	return d
}

// crashes does work that prepare leaves, once for each call that it takes, and
// crashes there; then a new start of the node must finish it. check sees the
// world after the crash and at the end.
type crashes struct {
	world     func(*world) // may be nil
	configure []func(*upkeep.Config)
	prepare   func(*testing.T, *world, *node)
	check     func(t *testing.T, w *world, n *node, done bool)
	steps     int // of work after prepare; default 40
}

func (c crashes) run(t *testing.T) {
	t.Helper()
	for _, after := range []bool{false, true} {
		for at := int64(1); ; at++ {
			require.Less(t, at, int64(200), "work without end")
			ended := true
			t.Run(fmt.Sprintf("after=%v/%d", after, at), func(t *testing.T) {
				w := newWorld(t)
				if c.world != nil {
					c.world(w)
				}
				n := w.start(t, 0, c.configure...)
				c.prepare(t, w, n)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := &fault{at: at, after: after, cancel: cancel}
				n.fault.Store(f)
				w.faults.SetPlan(f.plan)
				for i := 0; i < cmp.Or(c.steps, 40) && !f.crashed.Load(); i++ {
					w.clock.Add(upkeep.TickEvery.Milliseconds())
					err := n.Step(ctx, w.now())
					require.True(t, err == nil || f.crashed.Load(), "%v", err)
				}
				ended = !f.crashed.Load()
				n.stop()
				w.faults.SetPlan(nil)

				again := w.start(t, n.number(), c.configure...)
				c.check(t, w, again, false)
				for range 60 {
					w.clock.Add(upkeep.TickEvery.Milliseconds())
					require.NoError(t, again.Step(t.Context(), w.now()))
				}
				c.check(t, w, again, true)
			})
			if ended || t.Failed() {
				break
			}
		}
	}
}

// segmentsOf are the segments of the catalogue.
func segmentsOf(n *node) map[blobwal.SegmentID]statemachine.Segment {
	found := make(map[blobwal.SegmentID]statemachine.Segment)
	list, next := n.View().Segments(0, 1<<20)
	if next != 0 {
		panic("more segments than a test has")
	}
	for _, s := range list {
		found[blobwal.SegmentID{Node: uint32(s.Node), Epoch: uint64(s.Epoch), Sequence: s.Sequence}] = s.Segment
	}
	return found
}

// requireObjects checks that what may be read is there and, at the end, that the
// bucket holds what the catalogue does and nothing else.
func requireObjects(t *testing.T, w *world, n *node, done bool) {
	t.Helper()
	catalogue := segmentsOf(n)
	for id, s := range catalogue {
		if s.Doomed == 0 {
			require.True(t, w.has(t, id), "segment %s may still be referred to", id)
		}
	}
	if !done {
		return
	}
	for object, err := range blobwal.ListSegments(t.Context(), w.bucket, blobwal.LogPrefix(cluster, 0)) {
		require.NoError(t, err)
		require.Contains(t, catalogue, object.Segment, "an object that nothing refers to")
	}
	require.Zero(t, n.View().Counts().Dead)
}
