package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/internal/process"
)

// Catch-up rows read everything from the first record to the tail with a few
// clients that each take one stream after the other, from a server that was
// started anew for each pass, so that nothing is in its memory. Where the machine
// has the objects in its page cache, a get is a copy of bytes within one process,
// faster than they can be sent through a socket: there the handler that gets
// nothing is what to compare with.
const (
	catchUpClients = 4
	catchUpRounds  = 3
	catchUpShare   = 0.8 // of raw gets
	slowGet        = 20 * time.Millisecond
)

var catchUpFewRow = row{
	name: "catchup-few",
	what: "MB/s read from the start: 1 GiB in 4 streams, 4 clients",
	run: func(ctx context.Context, w *world) ([]line, error) {
		c := &catchUp{world: w, name: "catchup-few", streams: 4, appends: 256, records: 1024}
		return c.run(ctx, false)
	},
}

var catchUpManyRow = row{
	name: "catchup-many",
	what: "MB/s read from the start: 1 GiB in 10,000 streams, 4 clients; as appended, and compacted",
	run: func(ctx context.Context, w *world) ([]line, error) {
		c := &catchUp{world: w, name: "catchup-many", streams: 10_000, appends: 10, records: 10}
		return c.run(ctx, true)
	},
}

// catchUp is streams to read: records of 1 KiB, so many in each of the appends of
// a stream, which take turns.
type catchUp struct {
	*world
	name                      string
	streams, appends, records int
	data                      string // folder of the server
}

// slowStreams is how many streams are read at most where gets are slow and each
// stream lies in many segments.
const slowStreams = 4_000

// bytes is how much there is to read in so many streams.
func (c *catchUp) bytes(streams int) float64 {
	return float64(streams * c.appends * c.records * catchUpRecord)
}

func (c *catchUp) run(ctx context.Context, compacted bool) (lines []line, err error) {
	if c.data, err = c.dir(c.name); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.data)) }()
	if err := c.fill(ctx); err != nil {
		return nil, fmt.Errorf("write what is to be read: %w", err)
	}
	if lines, err = c.compare(ctx, c.name, "raw gets of the same ranges", slowStreams, asAppended); err != nil || !compacted {
		return lines, err
	}
	if err := c.compact(ctx); err != nil {
		return nil, fmt.Errorf("wait for compaction: %w", err)
	}
	more, err := c.compare(ctx, c.name+" compacted", "gets of whole objects", c.streams, packedWhole)
	return append(lines, more...), err
}

// condition is how the bucket is while it is read.
type condition struct {
	name   string
	cold   bool          // the machine has none of it in its page cache
	delay  time.Duration // of each get
	rounds int
}

var conditions = []condition{
	{name: "from memory", rounds: 3},
	{name: "from the disk", cold: true, rounds: 3},
	{name: fmt.Sprintf("%v a get", slowGet), delay: slowGet, rounds: 1},
}

// compare measures beside raw gets, with the bucket in each condition. Where gets are
// slow, so many streams are read.
func (c *catchUp) compare(ctx context.Context, name, beside string, slowly int, ranges func(*layout) [][]span) ([]line, error) {
	found, err := c.survey(ctx)
	if err != nil {
		return nil, err
	}
	var lines []line
	var memory peak
	for i, how := range conditions {
		what := name + ", " + how.name
		measured, baseline, err := alternate(how.rounds, func() (float64, error) {
			streams := c.streams
			if how.delay > 0 {
				streams = min(streams, slowly)
			}
			return c.pass(ctx, what, how, streams, &memory)
		}, func() (float64, error) {
			return c.rawPass(ctx, how, ranges(found))
		})
		if err != nil {
			return nil, err
		}
		lines = append(lines, share(what+", beside "+beside, "MB/s", measured, baseline, catchUpShare))
		if i > 0 {
			continue
		}
		bare, err := c.barePass(ctx)
		if err != nil {
			return nil, err
		}
		l := share(what+", beside a handler that sends as much and gets nothing", "MB/s", measured, bare, 0)
		l.aim = ""
		lines = append(lines, l)
	}
	return append(lines, memory.line(name)), nil
}

// pass reads the first streams from a fresh server and returns the rate.
func (c *catchUp) pass(ctx context.Context, what string, how condition, streams int, memory *peak) (rate float64, err error) {
	s, stop, err := c.start(ctx, how.delay)
	if err != nil {
		return 0, err
	}
	defer stop()
	if err := c.prepare(how); err != nil {
		return 0, err
	}
	sampled, cancel := context.WithCancel(ctx)
	defer cancel()
	go memory.sample(sampled, s)
	err = c.profiled(ctx, s, what, func() error {
		rate, err = c.read(ctx, s.URL, "", streams)
		return err
	})
	return rate, err
}

// read is the rate at which the clients get all that an endpoint has of the first
// streams; more goes into their requests.
func (c *catchUp) read(ctx context.Context, endpoint, more string, streams int) (rate float64, err error) {
	var next, bytes atomic.Int64
	began := time.Now()
	clients, ctx := errgroup.WithContext(ctx)
	for range catchUpClients {
		clients.Go(func() error {
			r, err := dialReader(ctx, endpoint)
			if err != nil {
				return err
			}
			defer r.close()
			for i := next.Add(1) - 1; i < int64(streams); i = next.Add(1) - 1 {
				n, err := r.readAll(string(streamName(int(i))), more)
				if err != nil {
					return err
				}
				bytes.Add(n)
			}
			return nil
		})
	}
	if err := clients.Wait(); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if float64(bytes.Load()) != c.bytes(streams) {
		return 0, fmt.Errorf("%d bytes were read where %.0f had been written", bytes.Load(), c.bytes(streams))
	}
	return c.bytes(streams) / megabyte / took.Seconds(), nil
}

// barePass is the rate at which the clients are sent as much in as many answers
// by a handler that need not get it.
func (c *catchUp) barePass(ctx context.Context) (float64, error) {
	url, err := c.baseline(ctx, "send")
	if err != nil {
		return 0, err
	}
	return c.read(ctx, url, fmt.Sprintf("&bytes=%.0f", c.bytes(1)), c.streams)
}

// start starts the server on what was written.
func (c *catchUp) start(ctx context.Context, delay time.Duration, args ...string) (*process.Server, func(), error) {
	var env []string
	if delay > 0 {
		env = append(env, fmt.Sprintf("PICOMQ_BUCKET_FAULTS=get=%v,seed=1", delay))
	}
	if args == nil {
		args = []string{"--compact-bandwidth", "1048576"} // that it stays as it is
	}
	return c.serveIn(ctx, c.data, env, args...)
}
