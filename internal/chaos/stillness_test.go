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
		told := 0
		s := newStillness(2, func(string, ...any) { told++ })
		pass := func(d time.Duration) { time.Sleep(d) }
		s.count(true)
		pass(time.Hour) // there is neither a database nor a node
		s.setDatabase(true)
		pass(time.Hour)
		s.setNode(0, true)
		pass(time.Second)
		s.accept()
		require.Equal(t, time.Second, s.most())
		pass(notable - 1)
		s.accept()
		require.Equal(t, 1, told)

		s.setNode(1, true)
		s.begin(killed)
		s.setNode(0, false)
		pass(2 * time.Second) // the other node could
		s.setNode(1, false)
		pass(time.Hour)
		s.setNode(1, true) // from here on anew
		pass(time.Second)
		s.accept()
		require.Equal(t, 2*time.Second, s.most())

		s.begin(databaseCrash)
		s.setDatabase(false)
		pass(time.Hour)
		s.end(killed)
		s.setDatabase(true)
		s.end(databaseCrash)
		pass(3 * time.Second)
		s.accept()
		require.Equal(t, 3*time.Second, s.most())
		pass(time.Minute)

		s.setBucket(false)
		pass(time.Hour)
		s.setBucket(true)
		pass(4 * time.Second)
		s.accept()
		s.count(false)
		pass(time.Hour)
		s.accept()
		require.Equal(t, "1m0s (no fault), 3s (kill -9 + database crash), 2s (kill -9)", s.String())
	})
}
