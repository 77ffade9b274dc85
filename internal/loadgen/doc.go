// Package loadgen puts load on a server and measures it: appends over its own
// HTTP/1.1 connections, and their delivery to live readers.
//
//	report, err := loadgen.Run(ctx, loadgen.Config{Endpoint: "http://127.0.0.1:4437", Connections: 64})
//
// Several runs over the same streams are a [Session].
//
// net/http's client costs more than the server does, so that it would be what
// is measured. Here a connection is one goroutine that writes a request with one
// system call and reads just as much of the answer as it needs.
//
// # How it measures
//
// Without a rate every connection sends its next append when the last was
// answered, and latency is the time of that exchange. With a rate, appends are
// due at even intervals whatever the server does, and latency counts from when
// an append was due: a server that stalls is charged for those that had to wait.
//
// Every record begins with a mark and the time at which it was sent, as the time
// since the run began. A live reader looks only for marks in what it receives,
// so it needs to know nothing of formats. Writer and reader share one clock,
// because they are one process.
//
// Latencies go into HDR histograms: microseconds to a minute, three significant
// digits. Refusals are counted by status and are no latencies.
//
// # Bounds
//
// One goroutine per connection and per reader, a request body per connection,
// and a fixed number of histograms. Every exchange has a deadline.
package loadgen
