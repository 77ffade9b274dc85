// Package process builds and runs the real picomq binary for tests: what a test
// learns through it, a user would see.
//
// [Build] compiles the command, [Launch] starts `picomq serve` with any flags,
// and a [Server] tells where it listens, whether it is ready, how it ended and
// what it logged. Nothing here waits by the clock alone: every wait ends with the
// server's line, answer or exit, and its deadline only turns a hang into an error.
package process
