package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

const (
	// probeEvery is how often a write is tried through each node, whether or not
	// the last was answered, and mostProbes how many may be without an answer.
	probeEvery = 20 * time.Millisecond
	mostProbes = 150
	// probeStreams is how many streams the writes through a node go to in turn: one
	// slow put of the bucket then delays only those that share a stream with it.
	probeStreams = 50
)

// probe writes through every node until ctx ends and tells stillness what was
// accepted.
func probe(ctx context.Context, c *cluster, name stream.Name) {
	c.stillness.count(true)
	context.AfterFunc(ctx, func() { c.stillness.count(false) })
	var probing sync.WaitGroup
	for i, s := range c.seats {
		probing.Go(func() { probeNode(ctx, s.door, stream.Name(fmt.Sprintf("%s/%d", name, i)), c.stillness) })
	}
	probing.Wait()
}

func probeNode(ctx context.Context, d *door, name stream.Name, s *stillness) {
	var sending sync.WaitGroup
	defer sending.Wait()
	slots := make(chan struct{}, mostProbes)
	ticks := time.NewTicker(probeEvery)
	defer ticks.Stop()
	last := time.Now()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		s.woke(time.Since(last) - probeEvery)
		last = time.Now()
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		sending.Go(func() {
			defer func() { <-slots }()
			if probeOnce(ctx, d, stream.Name(fmt.Sprintf("%s/%d", name, n%probeStreams))) == nil {
				s.accept()
			}
		})
	}
}

// probeOnce writes one record, to a stream that it makes if there is none.
func probeOnce(ctx context.Context, d *door, name stream.Name) error {
	_, err := d.pico.Append(ctx, name, &stream.AppendRequest{Records: []stream.Record{{Body: []byte("1")}}})
	if stream.CodeOf(err) == stream.CodeNotFound {
		_, err = d.pico.Create(ctx, name, client.CreateRequest{Config: stream.Config{ContentType: contentType}})
	}
	return err
}
