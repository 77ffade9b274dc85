package main

import (
	"context"
	"fmt"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/sqllog"
)

// openLog opens log and bucket. Where the log has no tables yet the bucket is
// looked into before they are made: a mistyped URL leaves no trace.
func (n *node) openLog(ctx context.Context, c *config) error {
	err := n.patiently(ctx, func() (err error) {
		var refusal error
		create := func(ctx context.Context) error {
			refusal = n.checkUnused(ctx, c)
			return refusal
		}
		n.log, err = sqllog.Open(ctx, c.metaURL, sqllog.Options{Logger: n.logger, Create: create})
		switch {
		case refusal != nil: // not the log's fault
			return refusal
		case err != nil:
			return fmt.Errorf("%s: %w", c.metaFlag, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return n.patiently(ctx, func() error {
		if err := n.openBucket(ctx, c); err != nil {
			return err
		}
		return n.checkBucket(ctx)
	})
}

// openBucket opens the bucket unless that was done.
func (n *node) openBucket(ctx context.Context, c *config) (err error) {
	if n.bucket == nil {
		n.bucket, err = openBucket(ctx, c.storage)
	}
	return err
}

// checkUnused opens the bucket and refuses it when it was used with another log.
func (n *node) checkUnused(ctx context.Context, c *config) error {
	if err := n.openBucket(ctx, c); err != nil {
		return err
	}
	cluster, found, err := blobwal.FindIdentity(ctx, n.bucket)
	if err != nil {
		return fmt.Errorf("--storage: %w", err)
	}
	if !found {
		return nil
	}
	return refuseUsed(ctx, n.bucket, cluster)
}

// refuseUsed refuses a bucket in which a cluster's segments lie, for a log that
// is empty.
func refuseUsed(ctx context.Context, bucket *blob.Bucket, cluster commands.ClusterID) error {
	used, err := blobwal.HasSegments(ctx, bucket, cluster, 0)
	if err != nil {
		return fmt.Errorf("--storage: %w", err)
	}
	if used {
		return fmt.Errorf("the log is empty, but the bucket holds segments of cluster %v: "+
			"point --meta-url at that cluster's log, or --storage at an empty bucket", cluster)
	}
	return nil
}

// checkBucket refuses a bucket that is not the one which the log's snapshots are
// in, before anything is looked for there in vain.
func (n *node) checkBucket(ctx context.Context) error {
	snapshots, err := n.log.Snapshots(ctx)
	if err != nil || len(snapshots) == 0 {
		return err
	}
	cluster, err := replica.ClusterOf(snapshots[0].Key)
	if err != nil {
		return err
	}
	return n.requireIdentity(ctx, cluster)
}

// requireIdentity refuses a bucket that is not of the log's cluster.
func (n *node) requireIdentity(ctx context.Context, cluster commands.ClusterID) error {
	want := [16]byte(cluster)
	if _, err := blobwal.EnsureIdentity(ctx, n.bucket, &want); err != nil {
		return fmt.Errorf("--storage: %w", err)
	}
	return nil
}

// cluster is the identity that log and bucket share. Where both are new it is
// made, in the bucket first: a crash between the two leaves a bucket with an
// identity and nothing else, which a log without one may adopt.
func (n *node) cluster(ctx context.Context) (commands.ClusterID, error) {
	if inLog, ok := n.replica.View().Cluster(); ok {
		return inLog, n.requireIdentity(ctx, inLog)
	}
	found, err := blobwal.EnsureIdentity(ctx, n.bucket, nil)
	cluster := commands.ClusterID(found)
	if err != nil {
		return cluster, fmt.Errorf("--storage: %w", err)
	}
	refusal := refuseUsed(ctx, n.bucket, cluster)
	if refusal == nil {
		return cluster, nil
	}
	// Perhaps another node of the same new cluster was faster: what it put into
	// the bucket came after its registration, so the log tells by now.
	if err := n.replica.Refresh(ctx); err != nil {
		return cluster, err
	}
	if inLog, ok := n.replica.View().Cluster(); ok {
		return inLog, n.requireIdentity(ctx, inLog)
	}
	return cluster, refusal
}
