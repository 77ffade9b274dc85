package replica_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
)

// A node that stood still between its snapshot and the check of it finds that
// others took later ones and truncated the log meanwhile. It gives its snapshot
// up, and does not replay all of history for the sake of it.
func TestASnapshotThatLaterOnesMadeSuperfluousIsNotChecked(t *testing.T) {
	c := newCluster(t)
	log := c.log.Peer()
	added, goOn := make(chan commands.Index, 1), make(chan struct{})
	var once sync.Once
	log.Before = func(_ context.Context, call string) error {
		if list, err := c.log.Snapshots(context.Background()); err == nil && call == "snapshots" && len(list) > 0 {
			once.Do(func() {
				added <- list[0].Index
				<-goOn
			})
		}
		return nil
	}
	var out lockedBuffer
	cfg := c.small(log)
	cfg.Logger = slog.New(slog.NewTextHandler(&out, nil))
	slow := c.start(cfg, 0)
	var at commands.Index
	for at == 0 {
		propose(t, slow, create(strings.Repeat("x", 100)))
		select {
		case at = <-added:
		default:
		}
	}
	twoSnapshots(t, c.start(c.small(c.log.Peer()), 0), "later")
	head, err := c.log.Head(t.Context())
	require.NoError(t, err)
	cfg = c.config(c.log.Peer())
	cfg.KeepRows = int(head.Index - at + 3)
	r := c.start(cfg, 0)
	archiveAll(t, r)
	truncateAll(t, r)
	truncated := archiveRecord(t, c.log).Truncated.Index
	require.Positive(t, truncated)
	require.Less(t, truncated, at)

	close(goOn)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "snapshot") }, patience, time.Millisecond)
	slow.Close()
	require.NotContains(t, out.String(), "replaying the archive")
	require.Contains(t, out.String(), "later one")
}

// lockedBuffer is a strings.Builder for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
