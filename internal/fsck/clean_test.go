package fsck_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAWorldAsItShouldBe: nothing is found, however it is looked at.
func TestAWorldAsItShouldBe(t *testing.T) {
	w := populate(t)
	full := w.check(t)
	full.requireOnly(t)
	t.Log(full.report, full.list)
	require.GreaterOrEqual(t, full.report.Snapshots, 2)
	require.GreaterOrEqual(t, full.report.Archives, 3)
	require.NotEmpty(t, w.segments(t, true))
	require.EqualValues(t, 6, full.report.Streams)
	w.check(t, quick).requireOnly(t)
	replayed := w.check(t, deep)
	replayed.requireOnly(t)
	require.EqualValues(t, replayed.report.Index, replayed.report.Rows, "every row was replayed")
	require.Less(t, full.report.Rows, replayed.report.Rows)
}
