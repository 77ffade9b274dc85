package soak

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/statemachine"
)

// curvePoints is about how many points a curve has.
const curvePoints = 16

// curve is how much there was over time. It is safe for concurrent use.
type curve struct {
	mu   sync.Mutex
	list []Point
}

func (c *curve) add(p Point) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, p)
}

func (c *curve) points() []Point {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Point(nil), c.list...)
}

// watch takes points until ctx ends.
func (w *world) watch(ctx context.Context) error {
	tick := time.NewTicker(max(w.Lasts/curvePoints, 50*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if l, _ := w.seats[0].now(); l != nil && l.enter() {
			err := w.look(context.WithoutCancel(ctx), l)
			l.leave()
			if err != nil {
				return err
			}
		}
	}
}

// look takes a point, without faults.
func (w *world) look(ctx context.Context, l *life) error {
	p := pointOf(l.replica.View())
	p.At = w.now().Sub(w.began)
	rows, err := l.log.RowCount(ctx)
	if err != nil {
		return err
	}
	p.Rows = rows
	bucket, free, err := w.openBucket()
	if err != nil {
		return err
	}
	for _, err := range objects(ctx, bucket) {
		if err != nil {
			return errors.Join(err, free())
		}
		p.Objects++
	}
	w.curve.add(p)
	return free()
}

// pointOf is what a state shows of a point.
func pointOf(view statemachine.View) Point {
	c := view.Counts()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Point{
		Streams: c.Streams, Extents: c.Extents, Segments: c.Segments, Dead: c.DeadBytes, Bytes: c.SegmentBytes,
		Applied: uint64(view.Index()), Heap: m.HeapAlloc,
	}
}

// objects are the keys in a bucket.
func objects(ctx context.Context, bucket *blob.Bucket) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		list := bucket.List(nil)
		for {
			o, err := list.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield("", err)
				return
			}
			if !yield(o.Key, nil) {
				return
			}
		}
	}
}
