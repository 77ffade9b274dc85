// Package picosuite is the wire suite of the Pico protocol: exchanges with a
// server, whatever it is made of, and what must come back. It knows nothing of
// the server's code; header names and formats are spelled out in the cases.
//
//	picosuite.Run(t, "http://127.0.0.1:4437")
//
// Exchanges that follow one another stand as scripts in cases/*.txt, one file
// for a chapter of the protocol; those that happen at the same time (long polls,
// event streams), or of which there are many, are Go functions in live.go,
// events.go and forks.go. Every case has a stream name of its own, so that the
// suite runs against a server that is in use, and again.
//
// # Scripts
//
//	case read/seq: a number
//	POST /@/stream
//	  Content-Type: text/plain
//	  | the body
//	= 200
//	  Pico-Next-Seq: 1
//
// A line "METHOD target" begins a request and "= status" what is expected of its
// response. Indented lines below either are
//
//	Name: value      a header; expected values may be * (any), - (absent),
//	                 !value (another one) or ~regexp (matches)
//	| text           a line of the body; lines are joined with LF
//	quoted "\x01"    the body, as a Go string
//	repeat 9 "x"     the body, so many times that string
//	length 9         the body has so many bytes
//	json {…}         the body is this JSON; "*" stands for any value
//	error code k=v   the body is an error of that code with these other members
//
// A body that is not mentioned may be anything. "@" stands for the case's own
// name. A value {name} that was not seen before takes what is there, and means
// it from then on. "advance 1s" lets time pass.
package picosuite
