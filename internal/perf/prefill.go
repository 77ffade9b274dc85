package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/blobwal/filebucket"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/stream"
)

const (
	million = 1_000_000
	// prefillBatch is how many streams one row of the log creates.
	prefillBatch = 8192
	// neverSnapshot keeps a replica from making snapshots while it is filled.
	neverSnapshot = math.MaxInt64
)

// prefilledName is the i-th name of a folder that was filled: 40 bytes, and as
// names of tenants are, neighbours in the order of creation are none in the order
// of names. A tenant has a 997th of them.
func prefilledName(i int) stream.Name {
	return stream.Name(fmt.Sprintf("tenants/%04d/agents/%08x/events/log", i%997, i))
}

// prefilled is a folder on which a server finds streams without records, as
// many as asked for, with an expiry. It is made once and goes with the world:
// rows that use it leave it as they found it, but for some streams more.
func (w *world) prefilled(ctx context.Context, streams int, expiry stream.Expiry) (string, error) {
	key := fmt.Sprintf("prefilled-%d-%d", streams, expiry.TTL)
	if dir, ok := w.filled[key]; ok {
		return dir, nil
	}
	dir, err := w.dir(key)
	if err != nil {
		return "", err
	}
	begun := time.Now()
	if err := prefill(ctx, dir, streams, expiry); err != nil {
		return "", fmt.Errorf("fill %s: %w", dir, err)
	}
	if streams == million {
		fmt.Fprintf(os.Stderr, "made a million streams in %v\n", time.Since(begun).Round(time.Millisecond))
	}
	if w.filled == nil {
		w.filled = make(map[string]string)
	}
	w.filled[key] = dir
	return dir, nil
}

// prefill writes the rows that so many creates would have left in a log, many in
// one, and a snapshot after them.
func prefill(ctx context.Context, dir string, streams int, expiry stream.Expiry) error {
	err := withReplica(ctx, dir, neverSnapshot, func(r *replica.Replica) error {
		for made := 0; made < streams; {
			var batch []commands.Command
			for ; made < streams && len(batch) < prefillBatch; made++ {
				batch = append(batch, &commands.Create{
					Name: prefilledName(made), Config: stream.Config{ContentType: stream.DefaultContentType, Expiry: expiry},
				})
			}
			if _, err := r.Propose(ctx, batch...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return withReplica(ctx, dir, 1, func(r *replica.Replica) error { return awaitSnapshot(ctx, r) })
}

// awaitSnapshot waits until a replica that makes one at its first row has done so.
func awaitSnapshot(ctx context.Context, r *replica.Replica) error {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for r.Stats().SnapshotIndex == 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.Failed():
			return r.Err()
		case <-poll.C:
		}
	}
	return nil
}

// withReplica registers on the log and bucket that a server would have in a
// folder.
func withReplica(ctx context.Context, dir string, snapshotBytes int64, do func(*replica.Replica) error) (err error) {
	log, err := sqllog.Open(ctx, "sqlite://"+filepath.ToSlash(filepath.Join(dir, "log.db")), sqllog.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	bucket, err := filebucket.OpenURL(ctx, &url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, "bucket"))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	cluster, err := blobwal.EnsureIdentity(ctx, bucket, nil)
	if err != nil {
		return err
	}
	r, err := replica.Open(ctx, replica.Config{Log: log, Bucket: bucket, SnapshotBytes: snapshotBytes})
	if err != nil {
		return err
	}
	self := commands.RegisterNode{Cluster: cluster, Level: commands.Level, Release: "perf"}
	_, _ = rand.Read(self.Incarnation[:]) // never fails
	if _, _, err := r.Register(ctx, self); err != nil {
		return err
	}
	defer r.Close()
	return do(r)
}
