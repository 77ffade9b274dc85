package crash

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/internal/memserver"
)

// TestTheHarnessAgreesWithASlowObviousServer runs writers, followers and checks
// against streams in memory, whose server drops every connection now and then.
// What fails here is the harness, or the protocols.
func TestTheHarnessAgreesWithASlowObviousServer(t *testing.T) {
	server := memserver.Start(t)
	var handling sync.WaitGroup // what a stopped server still does, a dead one would not
	server.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		handling.Add(1)
		defer handling.Done()
		next.ServeHTTP(w, r)
	})
	tally := new(tally)
	round := newRound(1, 0, tally)
	for range 3 {
		c := connect(server.URL, false)
		require.NoError(t, round.check(t.Context(), c, true))
		require.NoError(t, round.create(t.Context(), c))
		dropped := tally.after(300)
		g, ctx := errgroup.WithContext(t.Context())
		for i, w := range round.writers {
			g.Go(func() error { return mayBeLost(w.live(ctx, c.pick(i))) })
		}
		for i, f := range round.followers {
			g.Go(func() error { return mayBeLost(f.live(ctx, c.pick(i), func(int) bool { return false })) })
		}
		g.Go(func() error {
			select {
			case <-dropped:
				server.Stop()
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		require.NoError(t, g.Wait())
		c.close()
		handling.Wait()
		server.Restart()
	}
	c := connect(server.URL, false)
	defer c.close()
	require.NoError(t, settle(t.Context(), round, c))
	require.GreaterOrEqual(t, tally.acknowledged.Load(), int64(900))
	require.Positive(t, tally.duplicates.Load())
}

func mayBeLost(err error) error {
	if errors.Is(err, errLost) {
		return nil
	}
	return err
}
