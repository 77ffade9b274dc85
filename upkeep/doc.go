// Package upkeep is the work that nobody asks for and appends never feel: it
// makes time pass in the log while anything can expire, and removes the streams
// that are past their deadline.
//
// One node of a cluster does it, the holder of a lease. The lease only saves
// work: every command proposed here is checked again by Apply, so two holders
// do no harm.
//
// Each pass is bounded: a sweep looks at [sweepRows] streams and goes on where it
// stopped, and one command names at most [commands.MaxIDs] of them.
package upkeep
