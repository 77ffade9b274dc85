// Command perf measures a whole server beside bare baselines and prints the
// table that docs/benchmarks.md holds:
//
//	go run ./internal/perf                       # every row: what `make bench` runs
//	go run ./internal/perf -rows 'append|sse'    # some
//	go run ./internal/perf -rows append -profile /tmp/profiles
//
// # What a figure is
//
// Machines differ and one machine differs from hour to hour, so that every
// figure stands beside a baseline measured in the same run and counts as its
// ratio to it. A baseline is what nobody can go below: the same clients against
// a handler that does nothing, the same bytes put into the bucket by a loop, the
// same commit without a server around it. A row that says "×" compares two
// medians; measured and baseline take turns ([world.alternate]), so that a
// change of the machine meets both.
//
// The server is the real binary in a process of its own, as is a baseline's
// handler (this binary, started again by itself). Clients are in this process.
// All share the machine's cores, which is what two-core figures mean.
//
// # Rows
//
// A [row] names itself, says what is measured and what is aimed at, and makes
// [line]s. Rows are independent: each starts the servers it needs, in folders of
// its own, and leaves nothing. An aim that is missed is printed as missed and is
// no failure; a row that cannot measure is one.
package main
