package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/picomq/picomq/internal/process"
)

// Delivery of one stream's records to many live readers, beside a loop that
// writes the same bytes to as many sockets.
var (
	sse1000Row  = deliveryRow(1_000)
	sse10000Row = deliveryRow(10_000)
)

func deliveryRow(readers int) row {
	return row{
		name: fmt.Sprintf("sse-%d", readers),
		what: fmt.Sprintf("delivery of a record of 256 bytes to %d event streams of one stream, from its acknowledgement on", readers),
		run: func(ctx context.Context, w *world) ([]line, error) {
			return runDelivery(ctx, w, readers)
		},
	}
}

func runDelivery(ctx context.Context, w *world, readers int) ([]line, error) {
	bare, server, followed, err := w.followed(ctx, "loop")
	if err != nil {
		return nil, err
	}
	alone, event, err := deliverToOne(ctx, followed, w.duration/4)
	if err != nil {
		return nil, err
	}
	looped := &feed{url: bare, follow: "/", write: "/", body: event}
	var acknowledged []float64
	measure := func(f *feed) (float64, error) {
		crowd, err := gather(ctx, f, readers)
		if err != nil {
			return 0, err
		}
		defer crowd.disperse()
		out, err := crowd.deliver(ctx, f, w.duration/2)
		if err != nil {
			return 0, err
		}
		if f == followed {
			acknowledged = append(acknowledged, millis(percentile(out.acknowledged, 0.5)))
		}
		return millis(percentile(out.delivered, 0.99)), nil
	}
	measured, baseline, err := alternate(3, func() (p99 float64, err error) {
		err = w.profiled(ctx, server, fmt.Sprintf("sse-%d", readers), func() error {
			p99, err = measure(followed)
			return err
		})
		return p99, err
	}, func() (float64, error) { return measure(looped) })
	if err != nil {
		return nil, err
	}
	return []line{
		times(fmt.Sprintf("delivery to %d readers, p99 after the acknowledgement", readers), "ms", measured, baseline, 2),
		beside(fmt.Sprintf("acknowledgement of an append that %d readers get, p50; baseline: one reader", readers), "ms", median(acknowledged), alone),
	}, nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// followed starts a baseline and a server with a stream to follow.
func (w *world) followed(ctx context.Context, kind string) (bare string, server *process.Server, f *feed, err error) {
	if bare, err = w.baseline(ctx, kind); err != nil {
		return "", nil, nil, err
	}
	if server, err = w.serve(ctx, nil, "--sse-max-duration", "10m"); err != nil {
		return "", nil, nil, err
	}
	f, err = newFeed(ctx, server)
	return bare, server, f, err
}

// newFeed makes a stream on a server.
func newFeed(ctx context.Context, server *process.Server) (*feed, error) {
	f := &feed{url: server.URL, follow: "/followed?seq=now&live=sse", write: "/followed", body: bytes.Repeat([]byte{'x'}, 256)}
	return f, f.send(ctx, http.MethodPut, f.write)
}

// deliverToOne is how long an append takes when one reader gets it, the median in
// ms, and the bytes of an event.
func deliverToOne(ctx context.Context, f *feed, d time.Duration) (p50 float64, event []byte, err error) {
	one, err := gather(ctx, f, 1)
	if err != nil {
		return 0, nil, err
	}
	defer one.disperse()
	out, err := one.deliver(ctx, f, d)
	if err != nil {
		return 0, nil, err
	}
	return millis(percentile(out.acknowledged, 0.5)), *one.last.Load(), nil
}
