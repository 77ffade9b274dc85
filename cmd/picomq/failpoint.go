//go:build failpoint

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// failpointVariable names the point at which this process kills itself:
// "after-put:N", between a durable put and the proposal of its commit, or
// "after-commit:N", between an applied commit and its answers, at the N-th pass.
const failpointVariable = "PICOMQ_FAILPOINT"

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
		return killAtPass(n), nil, nil
	case "after-commit":
		return nil, killAtPass(n), nil
	default:
		return nil, nil, badFailpoint(text)
	}
}

func badFailpoint(text string) error {
	return fmt.Errorf("%s=%q: want after-put:N or after-commit:N with N of at least 1", failpointVariable, text)
}

// killAtPass kills the process, without any goodbye, at the n-th call.
func killAtPass(n int64) func() {
	var passes atomic.Int64
	return func() {
		if passes.Add(1) != n {
			return
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal may arrive a moment later; nothing happens meanwhile
	}
}
