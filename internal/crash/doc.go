// Package crash kills the real server with SIGKILL, over and over, under
// concurrent writers and readers, and checks after every restart that it kept
// its promises.
//
// # What is promised
//
//   - A record that was acknowledged is there exactly once, at the offset that
//     was acknowledged, for ever.
//   - The records of one request are whole or absent, contiguous and in order;
//     so is the body of a create, and a stream never exists without it.
//   - A request with a producer is there exactly once after it was retried, and
//     a retry of what was committed answers with the original offset.
//   - A request without one is sent once and is there at most once; when it was
//     refused it is not there.
//   - A conditional request whose answer was lost can be decided by sending it
//     again: it is refused if, and only if, it was committed or overtaken.
//   - Offsets are dense, timestamps never go back, and nothing that any reader
//     ever saw changes or goes away.
//   - A closed stream stays closed, and its closing record is its last.
//   - A fork that was acknowledged is there, once. It begins with exactly the
//     records that its parent had where it branched off, the last of which may be
//     cut, and nothing that the parent gets later appears in it; a fork at the
//     tail has all that was acknowledged to the parent before it was asked for.
//   - A stream counts exactly the forks of it that live. One that is deleted is
//     410 as long as there are any and 404 from then on; its forks miss nothing.
//   - A reader that reconnects across the kills sees all of it, without gap or
//     repeat.
//
// # How it is checked
//
// Every body names its writer, its request and its place in the request
// (record.go). Writers note in a ledger what they sent and what was answered
// (ledger.go). After each restart, before anyone writes, everything is read back
// through both protocols and compared with the ledger and with what was read
// before (check.go). The beginning of a fork is compared with the ledger of its
// parent, also when that one was deleted and cannot be read any more
// (inherit.go). Followers tail each shared stream as events and keep what they
// saw (follower.go).
//
// # How a server is paused
//
// A test of its own stops one of two processes on Postgres between the put of a
// segment and its commit, until it was taken for gone and the object deleted, and
// then wakes it (pause_test.go).
//
// # How the server dies
//
// A third of the kills come from outside, after a random number of
// acknowledgements, some of them while the server is still starting; a third
// strike exactly between the durable put of a segment and the proposal of its
// commit; a third between the applied commit and its answers. The last two need
// the failpoints that the build tag failpoint compiles in (kill.go).
//
// The build tag also lets the variable PICOMQ_HASTE make everything small and
// quick that bounds log and bucket: in every life segments are compacted and
// collected, rows archived and truncated, and the kills strike in between. At the
// end `picomq fsck --deep` must find nothing (left.go).
//
// The run is cut into rounds with streams of their own, so that memory and the
// time of a check stay bounded; the last check reads every round again. Kills,
// writers and their requests follow from the seed; how the kernel interleaves
// them does not.
package crash
