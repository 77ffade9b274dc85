package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

const (
	catchUpRecord  = 1 << 10
	megabyte       = 1e6
	fillClients    = 256
	fillMostBytes  = 32 << 20 // of appends that wait for their answer
	compactTimeout = 2 * time.Minute
)

func streamName(i int) stream.Name { return stream.Name(fmt.Sprintf("catchup/%06d", i)) }

// fill writes what is to be read: all streams, then one append to each in turn.
func (c *catchUp) fill(ctx context.Context) error {
	s, stop, err := c.start(ctx, 0)
	if err != nil {
		return err
	}
	defer stop()
	to, err := client.New(s.URL, client.Options{})
	if err != nil {
		return err
	}
	defer to.CloseIdleConnections()
	fmt.Fprintf(os.Stderr, "writing %.0f MB to %d streams\n", c.bytes(c.streams)/megabyte, c.streams)
	err = eachOf(ctx, fillClients, c.streams, func(ctx context.Context, i int) error {
		_, err := to.Create(ctx, streamName(i), client.CreateRequest{})
		return err
	})
	if err != nil {
		return err
	}
	records := make([]stream.Record, c.records)
	for i := range records {
		records[i].Body = make([]byte, catchUpRecord)
	}
	clients := max(1, min(fillClients, fillMostBytes/(c.records*catchUpRecord)))
	err = eachOf(ctx, clients, c.streams*c.appends, func(ctx context.Context, i int) error {
		_, err := to.Append(ctx, streamName(i%c.streams), &stream.AppendRequest{Records: records})
		return err
	})
	if err != nil {
		return err
	}
	return end(ctx, s)
}

// compact waits until a server has rewritten all that is worth it now. Less than a
// packed segment, 32 MiB, stays as it was appended: it would wait for more to come.
func (c *catchUp) compact(ctx context.Context) error {
	s, stop, err := c.start(ctx, 0, "--compact-bandwidth", fmt.Sprint(1<<30))
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintln(os.Stderr, "waiting for compaction")
	ctx, cancel := context.WithTimeout(ctx, compactTimeout)
	defer cancel()
	for quiet := 0; quiet < 3; time.Sleep(time.Second) {
		m, err := metrics(ctx, s)
		if err != nil {
			return err
		}
		quiet++
		if m[`picomq_upkeep_backlog{job="compact"}`] > 0 || m["picomq_compact_runs_total"] == 0 {
			quiet = 0
		}
	}
	return end(ctx, s)
}

// end stops a server as an operator does.
func end(ctx context.Context, s interface {
	Signal(os.Signal) error
	Exited() <-chan struct{}
},
) error {
	if err := s.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.Exited():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// eachOf does something for 0 to n-1, a few of them at a time.
func eachOf(ctx context.Context, atOnce, n int, do func(context.Context, int) error) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range atOnce {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
