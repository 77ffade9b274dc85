package rolling

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/process"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// patience turns a hang into a failure.
const patience = 15 * time.Minute

func TestNothingFailsWhileNodesRestart(t *testing.T) {
	binary, err := process.Build(t.Context(), t.TempDir())
	require.NoError(t, err)
	for _, test := range []struct {
		name  string
		load  LoadConfig
		front BalancerConfig
		drain string
	}{
		{"producers behind a blind balancer", LoadConfig{Producers: true}, BalancerConfig{Blind: true}, "0s"},
		{"once behind a balancer that looks", LoadConfig{}, BalancerConfig{}, "6s"},
		{"once behind a balancer that looks, HTTP2", LoadConfig{}, BalancerConfig{HTTP2: true}, "6s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			cluster, err := Start(ctx, ClusterConfig{
				Binary: binary, Nodes: 3, Database: sqllogtest.Postgres(t).URL, Folder: t.TempDir(), Flags: []string{"--drain", test.drain},
			})
			t.Cleanup(func() {
				cancel()
				cluster.Wait()
			})
			require.NoError(t, err)
			test.front.Nodes = cluster.Nodes()
			balancer, err := Balance(ctx, test.front)
			require.NoError(t, err)
			t.Cleanup(balancer.Close)
			test.load.URL = balancer.URL
			load, err := StartLoad(ctx, test.load)
			require.NoError(t, err)

			for i := range test.front.Nodes {
				before := load.Appends()
				require.NoError(t, cluster.Restart(ctx, i))
				require.Eventually(t, func() bool { return balancer.Sends(i) && load.Appends() > before }, patience, time.Millisecond)
			}
			require.NoError(t, load.Finish(ctx))
			require.NoError(t, load.Verify(ctx, cluster.Nodes()))
			require.NoError(t, cluster.Stop(ctx))
			t.Logf("%d appends, %d reads", load.Appends(), load.read.Load())
		})
	}
}
