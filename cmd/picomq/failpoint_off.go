//go:build !failpoint

package main

import (
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/upkeep"
)

// failpoints are none: only a binary built with the tag failpoint can be told
// to kill itself.
func failpoints() (afterPut, afterCommit func(), err error) { return nil, nil, nil }

// hasten and hastenUpkeep do nothing, likewise.
func hasten(*replica.Config)      {}
func hastenUpkeep(*upkeep.Config) {}
