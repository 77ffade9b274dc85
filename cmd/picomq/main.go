// Command picomq is the server and its command line in one binary. This
// package is wiring: it alone sees storage and protocols at once.
//
//	main.go     the command tree
//	serve.go    the life of a server process: start, serve, drain
//	node.go     one node put together from its packages, and taken apart
//	patience.go what a start waits for
//	config.go   flags and their checks
//	fsck.go     the check of a log and its bucket
//	storage.go  bucket URLs
//	nodeid.go   the node number kept in the data folder
//	metrics.go  what the packages count, for Prometheus
//	failpoint.go places to die at, for the crash test; only with the build tag
package main

import (
	"os"

	"github.com/picomq/picomq/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	root := cli.Root(version)
	root.AddCommand(serveCommand(), fsckCommand())
	os.Exit(cli.Execute(root))
}
