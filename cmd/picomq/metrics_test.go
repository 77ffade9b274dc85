package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi"
)

func TestMetricsOfMaintenance(t *testing.T) {
	c := configOf(t, "--storage", "mem://", "--max-extents", "5000", "--retention-age", "7d")
	n, err := startNode(t.Context(), c, "")
	require.NoError(t, err)
	defer n.stop(t.Context())
	families, err := n.registry(c, httpapi.NewMetrics()).Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	require.EqualValues(t, 5000, values["picomq_extents_limit"])
	require.Contains(t, values, "picomq_segments_by_size 64KiB")
	for _, job := range []string{"expire", "retain", "collect", "orphans", "archive", "compact"} {
		for _, name := range []string{"backlog", "age_seconds", "steps_total", "failures_total"} {
			require.Contains(t, values, "picomq_upkeep_"+name+" "+job)
		}
	}
	require.Contains(t, values, "picomq_archive_lag_rows")
	require.Contains(t, values, "picomq_sweep_missing")
}
