package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/blobwal/filebucket"
	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/internal/loadgen"
)

// What ingest rows send, and how the server on its defaults puts it: segments of
// 4 MiB, 8 at a time.
const (
	ingestClients   = 64
	ingestBatch     = 100
	ingestRecord    = 1 << 10
	ingestObject    = 4 << 20
	ingestUploads   = 8
	ingestMegabytes = 1e6
)

// ingestBinaryRow is how many bytes the server takes where each request has many,
// as the batches of the Pico protocol that need no parsing.
var ingestBinaryRow = row{
	name: "ingest-binary",
	what: "MB/s: 64 closed-loop clients, binary batches of 100 records of 1 KiB",
	run: func(ctx context.Context, w *world) ([]line, error) {
		return runIngest(ctx, w, "ingest-binary", client.Pico, 0.8)
	},
}

// ingestJSONRow is the same where every byte must be looked at: arrays of JSON
// objects to JSON streams.
var ingestJSONRow = row{
	name: "ingest-json",
	what: "MB/s: 64 closed-loop clients, JSON arrays of 100 objects of 1 KiB",
	run: func(ctx context.Context, w *world) ([]line, error) {
		return runIngest(ctx, w, "ingest-json", client.DurableStreams, 0.5)
	},
}

// runIngest compares the server with whatever is slower of the two that it
// cannot do without: reading the bodies, and putting them into the bucket. A line
// without an aim is the server beside a handler that does both and nothing else,
// on the same cores.
func runIngest(ctx context.Context, w *world, name string, protocol client.Protocol, least float64) ([]line, error) {
	reader, err := w.baseline(ctx, "discard")
	if err != nil {
		return nil, err
	}
	keeper, err := w.baseline(ctx, "store")
	if err != nil {
		return nil, err
	}
	server, err := w.serve(ctx, nil)
	if err != nil {
		return nil, err
	}
	load := func(url string) (float64, error) {
		report, err := loadgen.Run(ctx, loadgen.Config{
			Endpoint: url, Protocol: protocol, Connections: ingestClients, Streams: ingestClients,
			Size: ingestRecord, Batch: ingestBatch, Duration: w.duration,
		})
		if err != nil {
			return 0, err
		}
		if len(report.Failures) > 0 {
			return 0, fmt.Errorf("appends failed: %v", report.Failures)
		}
		return report.MBPerSecond, nil
	}
	const rounds = 3
	var bucket, handler, kept, measured [rounds]float64
	for i := range rounds {
		if bucket[i], err = w.bucketRate(ctx); err != nil {
			return nil, err
		}
		if handler[i], err = load(reader); err != nil {
			return nil, err
		}
		if kept[i], err = load(keeper); err != nil {
			return nil, err
		}
		err = w.profiled(ctx, server, name, func() error {
			measured[i], err = load(server.URL)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	baseline, what := median(bucket[:]), "the bucket"
	if h := median(handler[:]); h < baseline {
		baseline, what = h, "a handler that reads"
	}
	both := share(name+", beside a handler that reads and puts", "MB/s", median(measured[:]), median(kept[:]), 0)
	both.aim = ""
	return []line{share(fmt.Sprintf("%s, beside %s (bucket %.0f, handler %.0f MB/s)", name, what, median(bucket[:]), median(handler[:])),
		"MB/s", median(measured[:]), baseline, least), both}, nil
}

// bucketRate is how many MB/s a bare loop puts into a bucket of the driver that
// the server uses, as many objects at once and as large as its segments.
func (w *world) bucketRate(ctx context.Context) (rate float64, err error) {
	dir, err := w.dir("bucket")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bucket, err := filebucket.Open(dir, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	object := bytes.Repeat([]byte{'x'}, ingestObject)
	var puts atomic.Int64
	began := time.Now()
	loops, ctx := errgroup.WithContext(ctx)
	for range ingestUploads {
		loops.Go(func() error {
			for time.Since(began) < w.duration {
				key := fmt.Sprintf("segments/%d", puts.Add(1))
				err := bucket.Upload(ctx, key, bytes.NewReader(object), &blob.WriterOptions{ContentType: "application/octet-stream", IfNotExist: true})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = loops.Wait()
	return float64(puts.Load()*ingestObject) / ingestMegabytes / time.Since(began).Seconds(), err
}
