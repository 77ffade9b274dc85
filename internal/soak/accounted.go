package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/fsck"
	"github.com/picomq/picomq/replica/archive"
	"github.com/picomq/picomq/statemachine"
)

// accounted checks what is in the bucket, once nobody writes any more, against
// the state of a life that has ended and the log.
func (w *world) accounted(ctx context.Context, l *life) (err error) {
	w.last = l
	log, err := w.openLog(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	bucket, free, err := w.openBucket()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, free()) }()
	if err := w.objectsAccounted(ctx, l, log, bucket); err != nil {
		return err
	}
	if err := w.replayed(ctx, log, bucket); err != nil {
		return err
	}
	return w.checked(ctx, log, bucket)
}

// checked is what fsck has to say: nothing but what is as it should be.
func (w *world) checked(ctx context.Context, log backing, bucket *blob.Bucket) error {
	var found []string
	report, err := fsck.Run(ctx, fsck.Config{
		Log: log, Bucket: bucket, Deep: true,
		Found: func(f fsck.Finding) { found = append(found, f.String()) },
	})
	if err != nil {
		return w.failf("fsck: %w", err)
	}
	if !report.Clean() {
		return w.failf("fsck found\n%s", strings.Join(found, "\n"))
	}
	return nil
}

// objectsAccounted compares the keys in the bucket with those there must be.
func (w *world) objectsAccounted(ctx context.Context, l *life, log backing, bucket *blob.Bucket) error {
	cluster := *w.cluster.Load()
	want := map[string]bool{}
	list, _ := l.replica.View().Segments(0, 1<<30)
	for _, s := range list {
		want[blobwal.Key(cluster, blobwal.SegmentID{Node: uint32(s.Node), Epoch: uint64(s.Epoch), Sequence: s.Sequence})] = true
	}
	snapshots, err := log.Snapshots(ctx)
	if err != nil {
		return err
	}
	for _, s := range snapshots {
		want[s.Key] = true
	}
	for span, err := range archive.List(ctx, bucket, archive.Prefix(cluster)) {
		if err != nil {
			return err
		}
		want[archive.Key(cluster, span.First, span.Last)] = true // replayed checks their chain
	}
	var left []string
	for key, err := range objects(ctx, bucket) {
		if err != nil {
			return err
		}
		if !want[key] && !kept(key) {
			left = append(left, key)
		}
		delete(want, key)
	}
	if len(left)+len(want) > 0 {
		return w.failf("the bucket has objects that nothing knows: %v; it lacks: %v", left, slices.Sorted(maps.Keys(want)))
	}
	return nil
}

// kept tells whether an object is one of the few that stay for ever: the
// cluster's identity, a start's marker, a node's mark.
func kept(key string) bool {
	return key == "picomq-cluster" || strings.Contains(key, "/marker/") || strings.Contains(key, "/applied/")
}

// replayed applies the archive and what follows it from the first row on, and
// compares the digests at the snapshots.
func (w *world) replayed(ctx context.Context, log backing, bucket *blob.Bucket) error {
	snapshots, err := log.Snapshots(ctx)
	if err != nil {
		return err
	}
	a, err := log.Archive(ctx)
	if err != nil {
		return err
	}
	if len(snapshots) == 0 || a.Head.Index == 0 {
		return w.failf("there are %d snapshots and %d rows in the archive", len(snapshots), a.Head.Index)
	}
	h := history{state: statemachine.New(), snapshots: snapshots}
	if _, err := archive.Walk(ctx, bucket, archive.Prefix(*w.cluster.Load()), archive.Link{}, a.Head.Index, h.apply); err != nil {
		return w.failf("replay the archive: %w", err)
	}
	for {
		rows, err := log.Read(ctx, h.state.Index(), 1000, 1<<20)
		if err != nil {
			return w.failf("replay what follows the archive: %w", err)
		}
		if len(rows) == 0 {
			break
		}
		for _, row := range rows {
			if err := h.apply(row); err != nil {
				return w.failf("replay the log: %w", err)
			}
		}
	}
	if h.compared < len(snapshots) {
		return w.failf("%d of %d snapshots lie beyond the log", len(snapshots)-h.compared, len(snapshots))
	}
	return nil
}

// history is a replay under way.
type history struct {
	state     *statemachine.State
	snapshots []commands.Snapshot
	compared  int
}

func (h *history) apply(row commands.Row) error {
	payload, err := commands.DecodePayload(row.Payload)
	if err != nil {
		return err
	}
	if out := h.state.Apply(&commands.Entry{Index: row.Index, DatabaseTime: row.DatabaseTime, Payload: payload}); out.OutOfOrder {
		return fmt.Errorf("row %d follows row %d", row.Index, h.state.Index())
	}
	for _, s := range h.snapshots {
		if s.Index != row.Index {
			continue
		}
		if d := h.state.Digest(); d != s.Digest {
			return fmt.Errorf("the digest at row %d is %x, in the snapshot %x", row.Index, uint64(d), uint64(s.Digest))
		}
		h.compared++
	}
	return nil
}
