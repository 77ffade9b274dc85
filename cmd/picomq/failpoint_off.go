//go:build !failpoint

package main

import (
	"time"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/upkeep"
)

// failpoints are none: only a binary built with the tag failpoint can be told
// to kill itself.
func failpoints() (afterPut, afterCommit func(), err error) { return nil, nil, nil }

// spoil leaves the bucket as it is, likewise.
func spoil(bucket *blob.Bucket) (*blob.Bucket, error) { return bucket, nil }

// clock is the machine's, likewise.
func clock() (func() time.Time, error) { return time.Now, nil }

// hasten and hastenUpkeep do nothing, likewise.
func hasten(*replica.Config)      {}
func hastenUpkeep(*upkeep.Config) {}
