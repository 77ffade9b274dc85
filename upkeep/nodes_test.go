package upkeep_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog/sqllogtest"
	"github.com/picomq/picomq/upkeep"
)

// watched is a world of nodes that beat; the first holds the lease and watches.
type watched struct {
	*world
	holder, other *node
	silent        bool // the other does not beat
	mute          bool // nor does the holder
	away          bool // beats cannot be read
}

var errAway = errors.New("the database is away")

// unreadable are beats that now and then cannot be read.
type unreadable struct {
	*sqllogtest.Memory
	away *bool
}

func (u unreadable) Heartbeats(ctx context.Context) ([]commands.Heartbeat, error) {
	if *u.away {
		return nil, errAway
	}
	return u.Memory.Heartbeats(ctx)
}

func newWatched(t *testing.T) *watched {
	w := &watched{world: newWorld(t)}
	w.holder = w.start(t, 0, func(c *upkeep.Config) {
		c.Nodes = unreadable{w.log, &w.away}
		c.NodeTimeout = 30 * time.Second
	})
	w.other = w.start(t, 0)
	require.NoError(t, w.holder.Sync(t.Context()))
	return w
}

func (w *watched) beat(t *testing.T, n *node) {
	t.Helper()
	id, epoch := n.Node()
	require.NoError(t, w.log.Beat(t.Context(), commands.Heartbeat{Node: id, Epoch: epoch}))
}

// silence ends the other without a word.
func (w *watched) silence() {
	w.other.stop()
	w.silent = true
}

// watch lets time go by, a second at a time.
func (w *watched) watch(t *testing.T, d time.Duration) {
	t.Helper()
	for range d / time.Second {
		w.clock.Add(1000)
		if w.clock.Load()/1000%5 == 0 {
			if !w.mute {
				w.beat(t, w.holder)
			}
			if !w.silent {
				w.beat(t, w.other)
			}
		}
		if err := w.holder.Step(t.Context(), w.now()); err != nil {
			require.ErrorContains(t, err, "nodes: "+errAway.Error())
		}
	}
}

// gone tells whether the other is.
func (w *watched) gone() bool {
	for _, n := range w.holder.View().Nodes() {
		if n.Node == w.other.number() {
			return n.Gone
		}
	}
	return false
}

func (w *watched) beats(t *testing.T) int {
	t.Helper()
	list, err := w.log.Heartbeats(t.Context())
	require.NoError(t, err)
	return len(list)
}

func TestANodeThatStaysAwayDeparts(t *testing.T) {
	w := newWatched(t)
	w.watch(t, time.Hour)
	require.False(t, w.gone(), "it beats")
	w.silence()
	w.watch(t, 25*time.Second)
	require.False(t, w.gone())
	w.watch(t, 20*time.Second)
	require.True(t, w.gone())
	require.EqualValues(t, 1, w.holder.status(t, "nodes").Backlog)

	require.Equal(t, 2, w.beats(t), "its last beat stays for a while")
	w.watch(t, 11*time.Minute)
	require.Equal(t, 1, w.beats(t))
	require.Zero(t, w.holder.status(t, "nodes").Backlog)

	again := w.start(t, w.other.number())
	w.other, w.silent = again, false
	require.NoError(t, w.holder.Sync(t.Context())) // an hour passes in a moment here
	w.watch(t, time.Hour)
	require.False(t, w.gone(), "a new start lives")
}

// TestANodeThatNeverBeatDeparts: it died before it said anything.
func TestANodeThatNeverBeatDeparts(t *testing.T) {
	w := newWatched(t)
	w.silence()
	w.watch(t, 25*time.Second)
	require.False(t, w.gone())
	w.watch(t, 20*time.Second)
	require.True(t, w.gone())
}

// TestAnOutageDepartsNobody: neither one that the holder sees, nor one in which
// only writes fail, nor the holder's own absence.
func TestAnOutageDepartsNobody(t *testing.T) {
	for name, during := range map[string]func(*testing.T, *watched){
		"beats cannot be read": func(t *testing.T, w *watched) {
			w.away = true
			w.watch(t, 5*time.Minute)
			w.away = false
		},
		"beats cannot be written": func(t *testing.T, w *watched) {
			w.mute = true
			w.watch(t, 5*time.Minute)
			w.mute = false
		},
		"the holder was frozen": func(_ *testing.T, w *watched) { w.clock.Add(time.Hour.Milliseconds()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t)
			w.watch(t, time.Minute)
			w.silence()
			during(t, w)
			w.watch(t, 25*time.Second)
			require.False(t, w.gone(), "the others get all of the time to beat again")
			w.watch(t, 30*time.Second)
			require.True(t, w.gone())
		})
	}
}

// TestClocksThatJumpDepartNobody: beats carry times of the database, which are
// compared for equality only.
func TestClocksThatJumpDepartNobody(t *testing.T) {
	w := newWatched(t)
	jump := time.Duration(0)
	w.log.Now = func() time.Time { return w.now().Add(jump) }
	for _, jump = range []time.Duration{time.Hour, -time.Hour, 24 * time.Hour, 0} {
		w.watch(t, time.Minute)
		require.False(t, w.gone())
	}
}
