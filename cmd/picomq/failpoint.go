//go:build failpoint

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/upkeep"
)

// failpointVariable names the point at which this process kills itself:
// "after-put:N", between a durable put and the proposal of its commit, or
// "after-commit:N", between an applied commit and its answers, at the N-th pass.
// At "freeze-after-put:N" it only stops, until it is sent SIGCONT.
const failpointVariable = "PICOMQ_FAILPOINT"

// hasteVariable, when set, makes small and quick what bounds log and bucket, so
// that in lives of less than a second they are compacted, collected, archived and
// truncated.
const hasteVariable = "PICOMQ_HASTE"

// faultsVariable says how the bucket misbehaves, as [faultbucket.ParseRandom]
// reads it: "put=20ms,get=20ms,straggle=0.01:500ms,seed=1".
const faultsVariable = "PICOMQ_BUCKET_FAULTS"

// skewVariable says how far this node's clock is ahead, or with a minus behind,
// wherever it tells the log or a stream the time: "-3s".
const skewVariable = "PICOMQ_CLOCK_SKEW"

// clock is the node's clock, if it is told to be wrong.
func clock() (func() time.Time, error) {
	text := os.Getenv(skewVariable)
	if text == "" {
		return time.Now, nil
	}
	skew, err := time.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", skewVariable, err)
	}
	return func() time.Time { return time.Now().Add(skew) }, nil
}

// spoil makes a bucket misbehave, if told so. Closing what it returns closes the
// bucket.
func spoil(bucket *blob.Bucket) (*blob.Bucket, error) {
	text := os.Getenv(faultsVariable)
	if text == "" {
		return bucket, nil
	}
	faults, err := faultbucket.ParseRandom(text)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", faultsVariable, err), bucket.Close())
	}
	bucket, _ = faultbucket.Wrap(bucket, faults.Plan())
	return bucket, nil
}

// hasten bounds a replica, if told so.
func hasten(c *replica.Config) {
	if os.Getenv(hasteVariable) != "" {
		c.SnapshotBytes, c.SnapshotAge, c.KeepRows = 16<<10, 200*time.Millisecond, 20
	}
}

// hastenUpkeep bounds maintenance, if told so.
func hastenUpkeep(c *upkeep.Config) {
	if os.Getenv(hasteVariable) != "" {
		c.Look, c.Grace, c.PackedBytes = 20*time.Millisecond, 100*time.Millisecond, 16<<10
		c.SweepAfter, c.SweepEvery = 50*time.Millisecond, 200*time.Millisecond
	}
}

// failpoints are what the engine runs at its two points. Only a binary built
// with the tag failpoint has any; the crash test builds one.
func failpoints() (afterPut, afterCommit func(), err error) {
	text := os.Getenv(failpointVariable)
	if text == "" {
		return nil, nil, nil
	}
	point, pass, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(pass, 10, 64)
	if err != nil || n < 1 {
		return nil, nil, badFailpoint(text)
	}
	switch point {
	case "after-put":
		return atPass(n, kill), nil, nil
	case "freeze-after-put":
		return atPass(n, freeze), nil, nil
	case "after-commit":
		return nil, atPass(n, kill), nil
	default:
		return nil, nil, badFailpoint(text)
	}
}

func badFailpoint(text string) error {
	return fmt.Errorf("%s=%q: want after-put:N, freeze-after-put:N or after-commit:N with N of at least 1", failpointVariable, text)
}

// atPass does something at the n-th call.
func atPass(n int64, do func()) func() {
	var passes atomic.Int64
	return func() {
		if passes.Add(1) == n {
			do()
		}
	}
}

// kill ends the process without any goodbye.
func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal may arrive a moment later; nothing happens meanwhile
}

// freeze stops the process, all of it, until it is woken.
func freeze() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	time.Sleep(50 * time.Millisecond) // likewise
}
