package replica_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
)

// lines is what was logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// TestAnOutageIsToldOnce as it begins, however often the log is tried, and once as
// it ends.
func TestAnOutageIsToldOnce(t *testing.T) {
	for _, test := range []struct {
		name, during, after string
		fails               func(call string) bool
	}{
		{"of all", "the log does not answer", "the log answers again", func(string) bool { return true }},
		{"of inserting", "an insert into the log failed", "the log takes rows again", func(call string) bool { return call == "append" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, said := newCluster(t), &lines{}
			log := c.log.Peer()
			var away atomic.Bool
			var tried atomic.Int64
			log.Before = func(_ context.Context, call string) error {
				if !away.Load() || !test.fails(call) {
					return nil
				}
				tried.Add(1)
				return errors.Join(commands.ErrNotSent, errors.New("the network is cut"))
			}
			cfg := c.config(log)
			cfg.Logger = slog.New(slog.NewTextHandler(said, nil))
			r := c.start(cfg, 0)
			away.Store(true)
			answer := make(chan error, 1)
			go func() {
				for tried.Load() == 0 && test.name == "of all" {
					time.Sleep(time.Millisecond) // a read failed first
				}
				_, err := r.Propose(context.WithoutCancel(t.Context()), &commands.Tick{})
				answer <- err
			}()
			require.Eventually(t, func() bool { return tried.Load() >= 5 }, patience, time.Millisecond)
			require.Zero(t, said.count(test.after))
			away.Store(false)
			require.NoError(t, <-answer)
			require.Eventually(t, func() bool { return said.count(test.after) == 1 }, patience, time.Millisecond)
			require.Equal(t, 1, said.count(test.during))
		})
	}
}

// However long the log was away, it is not left alone for long.
func TestTheLogIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for try := range 100 {
			began := time.Now()
			require.True(t, replica.Pause(t.Context(), try))
			require.LessOrEqual(t, time.Since(began), 100*time.Millisecond)
		}
	})
}
