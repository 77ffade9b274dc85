package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/engine"
	"github.com/picomq/picomq/stream"
)

func TestSmallRecordsCountWithWhatTheyTakeInMemory(t *testing.T) {
	w := newWorld(t)
	n := w.start(func(c *engine.Config) { c.Writer.Deadline = patience })
	n.create(t, "a", "text/plain")
	hold := w.holdPuts()
	const count = 1000
	appended := make(chan error, 1)
	go func() {
		_, err := n.Append(context.Background(), "a", &stream.AppendRequest{Records: make([]stream.Record, count)})
		appended <- err
	}()
	require.Eventually(t, func() bool { return n.InFlight() >= count*stream.RecordMemory }, patience, time.Millisecond)
	close(hold)
	require.NoError(t, <-appended)
	require.Zero(t, n.InFlight())
}
