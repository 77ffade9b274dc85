package fsck_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/fsck"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// TestOnDatabases: SQLite after the server, Postgres beside it.
func TestOnDatabases(t *testing.T) {
	sqllogtest.Databases(t, func(t *testing.T, open func(testing.TB) sqllogtest.Log) {
		w := newWorld(t)
		log := open(t)
		s := w.serveOn(t, log, 0)
		on := func(c *fsck.Config) { c.Log = log }
		if log.Exclusive() {
			defer func() { require.NoError(t, log.Close()) }()
		} else {
			beside := open(t)
			on = func(c *fsck.Config) { c.Log = beside }
			defer func() {
				require.NoError(t, beside.Close())
				s.stop()
				require.NoError(t, log.Close())
			}()
		}
		s.create("a", "text/plain")
		for i := 0; ; i++ {
			require.Less(t, i, 10_000)
			s.append("a", "a record")
			list, err := log.Snapshots(t.Context())
			require.NoError(t, err)
			if len(list) >= 2 && list[0].Confirmed && list[1].Confirmed {
				break
			}
		}
		w.settle(t, s)
		a, err := log.Archive(t.Context())
		require.NoError(t, err)
		require.Positive(t, a.Truncated.Index)
		if log.Exclusive() {
			s.stop()
		}
		w.sweep(t, log)
		w.check(t, on).requireOnly(t)
		w.check(t, on, deep).requireOnly(t)

		orphan := w.place(t, 7, 1, 1)
		w.check(t, on).requireOnly(t, "warning orphan "+orphan)
		f := w.check(t, on, repair)
		require.NoError(t, f.err)
		require.Equal(t, 1, f.report.Repaired)
		require.True(t, f.report.Clean())
		held, err := log.AcquireLease(t.Context(), "upkeep", holderOf(s), time.Second)
		require.NoError(t, err)
		require.True(t, held, "the lease was given back")
	})
}
