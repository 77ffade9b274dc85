package chaos

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStillnessCountsOnlyWhatCouldHaveBeenWritten goes through a life in which
// time is exact.
func TestStillnessCountsOnlyWhatCouldHaveBeenWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStillness(2)
		pass := func(d time.Duration) { time.Sleep(d) }
		s.count(true)
		pass(time.Hour) // there is neither a database nor a node
		s.database(true)
		pass(time.Hour)
		s.node(0, true)
		pass(time.Second)
		s.accept()
		require.Equal(t, time.Second, s.most())

		s.node(1, true)
		s.begin(killed)
		s.node(0, false)
		pass(2 * time.Second) // the other node could
		s.node(1, false)
		pass(time.Hour)
		s.node(1, true) // from here on anew
		pass(time.Second)
		s.accept()
		require.Equal(t, 2*time.Second, s.most())

		s.begin(databaseCrash)
		s.database(false)
		pass(time.Hour)
		s.database(true)
		pass(3 * time.Second)
		s.accept()
		require.Equal(t, 3*time.Second, s.most())
		s.count(false)
		pass(time.Hour)
		s.accept()
		require.Equal(t, "no fault 1s (ended 2h0m1s after it), kill -9 2s (ended 2s after it), database crash 3s (ended 1h0m3s after it)", s.String())
	})
}
