// Package memserver is an HTTP server of streams in memory, for tests of what
// talks to one: the real protocols over a real socket, on streams that are
// slow, obvious and quickly made.
//
// A test may stop the server and start it again at the same address, which the
// streams survive, and may put itself between the protocols and the client to
// lose answers, cut connections or refuse requests.
package memserver
