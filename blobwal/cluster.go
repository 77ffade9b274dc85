package blobwal

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// IdentityError says that a bucket does not belong to the cluster that asks.
type IdentityError struct {
	Want  [16]byte // the cluster that the log names
	Found [16]byte // the cluster that the bucket names
	// Missing says that the bucket names none, although the log does.
	Missing bool
}

// Error says what to check.
func (e *IdentityError) Error() string {
	if e.Missing {
		return fmt.Sprintf("the database belongs to cluster %x and the bucket to none (it has no object %s): "+
			"check that the bucket is the one this database was used with", e.Want, IdentityKey)
	}
	return fmt.Sprintf("the database belongs to cluster %x and the bucket to cluster %x: "+
		"check that both are the ones used together", e.Want, e.Found)
}

// EnsureIdentity is the identity of the cluster that the bucket belongs to.
//
// Without want, that is when the log does not name a cluster yet, the identity
// found is returned, or a random one is created; of several processes that do
// so at once all get the same. With want, the bucket must have exactly that
// identity, else the error is an [*IdentityError]: it is not created then, since
// a log that names a cluster has used its bucket before.
func EnsureIdentity(ctx context.Context, bucket *blob.Bucket, want *[16]byte) ([16]byte, error) {
	found, err := readIdentity(ctx, bucket)
	switch {
	case err == nil && want != nil && found != *want:
		return found, &IdentityError{Want: *want, Found: found}
	case err == nil:
		return found, nil
	case gcerrors.Code(err) != gcerrors.NotFound:
		return found, err
	case want != nil:
		return found, &IdentityError{Want: *want, Missing: true}
	}
	var fresh [16]byte
	_, _ = rand.Read(fresh[:]) // never fails
	err = createOnly(ctx, bucket, IdentityKey, identityBody(fresh))
	if isForeign(err) { // another process was first
		return readIdentity(ctx, bucket)
	}
	return fresh, err
}

// FindIdentity is the identity of the cluster that the bucket belongs to, if it
// has one. It changes nothing.
func FindIdentity(ctx context.Context, bucket *blob.Bucket) (cluster [16]byte, found bool, err error) {
	cluster, err = readIdentity(ctx, bucket)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return cluster, false, nil
	}
	return cluster, err == nil, err
}

func identityBody(cluster [16]byte) []byte { return fmt.Appendf(nil, "picomq cluster 1 %x\n", cluster) }

func readIdentity(ctx context.Context, bucket *blob.Bucket) (cluster [16]byte, err error) {
	body, err := readSmall(ctx, bucket, IdentityKey)
	if err != nil {
		return cluster, err
	}
	digits, ok := strings.CutPrefix(strings.TrimSpace(body), "picomq cluster 1 ")
	if raw, err := hex.DecodeString(digits); ok && err == nil && len(raw) == len(cluster) {
		return [16]byte(raw), nil
	}
	return cluster, &ObjectError{Key: IdentityKey, Fault: FaultFormat, Detail: "it does not hold a cluster's identity"}
}

// MarkerError says that an epoch of a node belongs to another incarnation: the
// database gave the same epoch twice, so it was cloned, or rewound to an older
// state. Going on would mix two histories.
type MarkerError struct {
	Key string
}

// Error says what happened and what to do.
func (e *MarkerError) Error() string {
	return fmt.Sprintf("object %s was written by another start of this node: the database was cloned or restored "+
		"to an older state; use the database this bucket belongs to", e.Key)
}

// WriteMarker claims an identity's epoch in the bucket, create-only. Call it
// after the registration and before the first segment. Claiming again with the
// same incarnation succeeds; if another has it, the error is a [*MarkerError].
// Any other error may pass.
func WriteMarker(ctx context.Context, bucket *blob.Bucket, id Identity) error {
	key := MarkerKey(id.Cluster, id.Log, id.Node, id.Epoch)
	body := fmt.Appendf(nil, "picomq incarnation 1 %x\n", id.Incarnation)
	err := createOnly(ctx, bucket, key, body)
	if isForeign(err) {
		return &MarkerError{Key: key}
	}
	return err
}

// HasSegments tells whether the bucket has any segment of the log, at the price
// of listing one key.
func HasSegments(ctx context.Context, bucket *blob.Bucket, cluster [16]byte, log uint16) (bool, error) {
	prefix := LogPrefix(cluster, log)
	page, _, err := bucket.ListPage(ctx, blob.FirstPageToken, 1, &blob.ListOptions{Prefix: prefix})
	if err != nil {
		return false, fmt.Errorf("list %s: %w", prefix, err)
	}
	return len(page) > 0, nil
}

// readSmall reads an object of a few lines, and of a larger one the beginning.
func readSmall(ctx context.Context, bucket *blob.Bucket, key string) (body string, err error) {
	r, err := bucket.NewReader(ctx, key, nil)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	p, err := io.ReadAll(io.LimitReader(r, 4<<10))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	return string(p), nil
}
