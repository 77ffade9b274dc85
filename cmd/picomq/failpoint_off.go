//go:build !failpoint

package main

// failpoints are none: only a binary built with the tag failpoint can be told
// to kill itself.
func failpoints() (afterPut, afterCommit func(), err error) { return nil, nil, nil }
