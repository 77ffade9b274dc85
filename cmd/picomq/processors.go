package main

import (
	"os"
	"runtime"
	"strings"
)

// diskCalls is how many goroutines are expected to wait for a disk at a time when
// much is written: two or three puts, the log's commit, a read.
const diskCalls = 4

// makeRoomForDisk has goroutines run beside those that wait for a disk.
//
// The runtime runs as many goroutines at a time as there are processors. One in a
// system call counts until a monitor sees that it takes long, after 20 µs at best
// and 10 ms at worst. With two processors, two puts in their fsync so stop all the
// rest: requests were found to lie unread for 8 of the 17 ms that they took. In
// return the number stays when a container's limit is changed under way.
func makeRoomForDisk(c *config) {
	now := runtime.GOMAXPROCS(0)
	if n := processors(c, os.Getenv("GOMAXPROCS"), now); n != now {
		runtime.GOMAXPROCS(n)
	}
}

// processors is how many goroutines should run at a time where the runtime's own
// choice is n. Whoever sets GOMAXPROCS is left to it.
func processors(c *config, environment string, n int) int {
	if environment != "" || !c.onDisk() {
		return n
	}
	return n + diskCalls
}

// onDisk tells whether records or the log are kept in local files.
func (c *config) onDisk() bool {
	return strings.HasPrefix(c.storage, "file:") || strings.HasPrefix(c.metaURL, "sqlite:")
}
