package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Bounds of a crowd.
const (
	crowdDials   = 64               // connections that are opened at once
	crowdTimeout = 30 * time.Second // for one reader to attach, and for an event to reach all
	crowdPause   = 30 * time.Millisecond
	crowdEvent   = 2 << 10 // bytes of the largest event, the frame of its chunk included
	fewestEvents = 5       // of a load, however long they take
)

// feed is a stream of events, whoever serves it.
type feed struct {
	url    string // of the server
	follow string // path and query of its event stream
	write  string // path that an event is made by posting to
	body   []byte // of such a post
}

// crowd is readers that follow one feed, each on a connection of its own. Every
// reader must have one event before the next is made.
type crowd struct {
	began time.Time
	conns []net.Conn
	at    []atomic.Int64 // when each reader had the last event, in ns since began
	left  atomic.Int64   // readers that do not have it yet
	all   chan struct{}  // capacity 1: left has come to 0
	last  atomic.Pointer[[]byte]
}

// gather connects readers and returns when all of them have been told where they
// are: the first event of a stream.
func gather(ctx context.Context, f *feed, readers int) (*crowd, error) {
	server, err := url.Parse(f.url)
	if err != nil {
		return nil, err
	}
	c := &crowd{began: time.Now(), conns: make([]net.Conn, readers), at: make([]atomic.Int64, readers), all: make(chan struct{}, 1)}
	c.left.Store(int64(readers))
	request := []byte("GET " + f.follow + " HTTP/1.1\r\nHost: " + server.Host + "\r\nAccept: text/event-stream\r\n\r\n")
	group, dialing := errgroup.WithContext(ctx)
	group.SetLimit(crowdDials)
	for i := range readers {
		group.Go(func() error {
			conn, err := (&net.Dialer{Timeout: crowdTimeout}).DialContext(dialing, "tcp", server.Host)
			if err != nil {
				return err
			}
			c.conns[i] = conn
			if _, err := conn.Write(request); err != nil {
				return err
			}
			go c.read(i)
			return nil
		})
	}
	if err = group.Wait(); err == nil {
		err = c.await(ctx)
	}
	if err != nil {
		c.disperse()
		return nil, fmt.Errorf("connect %d readers to %s: %w", readers, f.url, err)
	}
	return c, nil
}

// disperse disconnects all readers at once. Resetting leaves no port behind in
// TIME_WAIT, of which there are fewer than a few crowds need.
func (c *crowd) disperse() {
	for _, conn := range c.conns {
		if conn != nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}
	time.Sleep(time.Second) // for the server to notice, before anything else is measured
}

// read notes when events are there as a whole, until the connection ends.
func (c *crowd) read(i int) {
	buffer := make([]byte, crowdEvent)
	for filled := 0; filled < len(buffer); {
		n, err := c.conns[i].Read(buffer[filled:])
		now := time.Since(c.began)
		if err != nil {
			return
		}
		filled += n
		if !endsEvent(buffer[:filled]) {
			continue
		}
		c.at[i].Store(int64(now))
		if i == 0 {
			event := bytes.Clone(buffer[:filled])
			c.last.Store(&event)
		}
		filled = 0
		if c.left.Add(-1) == 0 {
			c.all <- struct{}{}
		}
	}
}

// endsEvent tells whether what came since the last event is one with everything
// that belongs to it: its control event, and the end of the chunk.
func endsEvent(b []byte) bool {
	return bytes.HasSuffix(b, []byte("\n\n\r\n")) && bytes.Contains(b, []byte("event: control"))
}

// await waits until all readers have the event.
func (c *crowd) await(ctx context.Context) error {
	select {
	case <-c.all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(crowdTimeout):
		return fmt.Errorf("%d of %d readers had no event after %v", c.left.Load(), len(c.conns), crowdTimeout)
	}
}

// delivery is what a load of events took: each event to be acknowledged to who
// made it, and each reader to have it then.
type delivery struct {
	acknowledged []time.Duration
	delivered    []time.Duration
}

// deliver makes one event after the other for a time.
func (c *crowd) deliver(ctx context.Context, f *feed, d time.Duration) (*delivery, error) {
	out := new(delivery)
	for end := time.Now().Add(d); time.Now().Before(end) || len(out.acknowledged) < fewestEvents; {
		c.left.Store(int64(len(c.conns)))
		sent := time.Since(c.began)
		if err := f.post(ctx); err != nil {
			return nil, err
		}
		acknowledged := time.Since(c.began)
		if err := c.await(ctx); err != nil {
			return nil, err
		}
		out.acknowledged = append(out.acknowledged, acknowledged-sent)
		for i := range c.at {
			// A reader may have it before the writer is told.
			out.delivered = append(out.delivered, max(0, time.Duration(c.at[i].Load())-acknowledged))
		}
		time.Sleep(crowdPause)
	}
	return out, nil
}

// post makes an event and returns when that is acknowledged.
func (f *feed) post(ctx context.Context) error {
	return f.send(ctx, http.MethodPost, f.write)
}

// send makes a request with the feed's body.
func (f *feed) send(ctx context.Context, method, path string) error {
	request, err := http.NewRequestWithContext(ctx, method, f.url+path, bytes.NewReader(f.body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s answered %s", method, path, answer.Status)
	}
	return nil
}

// percentile is the value that a share of all does not exceed.
func percentile(all []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[int(share*float64(len(sorted)-1))]
}
