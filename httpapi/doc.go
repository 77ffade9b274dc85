// Package httpapi serves streams over HTTP: the Durable Streams protocol below
// /v1/stream/ and the Pico protocol everywhere else, on one port. One stream
// has two spellings, and what is written through one is read through the other.
//
// The package knows HTTP and the vocabulary of package stream, and nothing of
// storage: everything it does to a stream goes through [Streams], which it
// declares and the engine satisfies.
//
//	api, err := httpapi.New(httpapi.Config{Streams: engine})
//	server := &http.Server{Handler: api.Handler()}
//	…
//	api.Retire()                // answers end their connections from now on
//	…
//	api.Drain()                 // ends live readers
//	server.Shutdown(ctx)        // then waits for what is left
//
// # Who checks what
//
// This package checks syntax: names, headers, queries, the batch formats, JSON
// and UTF-8. Whatever depends on a stream's state (existence, content type,
// producers, closed or not) is decided behind [Streams], whose refusals are
// *[stream.Error] values; one table ([refusalOf]) maps their codes to statuses
// for both protocols. The order in a handler is always the same: route and
// name, header syntax, body, then the engine.
//
// # Bounds
//
// A request body is bounded by [Config.MaxBody], the records in it by
// [stream.MaxRecords], and the memory of all bodies and records together by
// [Config.BodyBudget]: it is taken as bytes arrive and as records are found. The
// memory of large bodies is used again once their records are stored. A body that
// does not arrive within [Config.BodyTimeout] is refused; where nobody needs it,
// because the method takes none or the request is refused already, the answer
// waits for it [drainTimeout] at most.
//
// A catch-up response of Durable Streams holds at most [maxReadBytes] of bodies,
// or one record if that is larger. Live readers (long polls and event streams)
// are bounded by [Config.MaxSubscribers]; each holds an offset and no queue, so
// that a slow one costs its socket only, and is cut when a write takes longer
// than [Config.WriteTimeout]. The bytes of encoded events kept for sharing are
// bounded by [Config.EventCacheBytes].
//
// # Live readers
//
// An event stream is a loop: read what is after the offset, write it, wait for
// more. An event is encoded once for all readers at the same offset of the same
// stream ([eventCache]); it leaves in one write together with its control event.
// Every connection ends by itself after [Config.SSEMaxDuration], and readers
// resume from the last control event they saw.
//
// A reader that waits costs its connection, its goroutine and a few hundred
// bytes: it has no timer and no context of its own ([alarms]), no buffer, and the
// loop runs where the handlers have returned ([goOn]), on a stack half as large.
//
// # Offsets on the wire
//
// Pico prints an offset as its decimal number. Durable Streams prints a token
// that clients must treat as opaque: 16 zero digits, reserved, '_', and the
// offset in 16 digits, so that tokens sort as the offsets do.
//
// # What the Durable Streams protocol leaves open
//
//   - An offset past the tail is 400, one below the retained range 410; the
//     message names the offset that works. "-1" is the first retained record.
//   - Stream-Seq is one sequence for each stream, whoever writes.
//   - A header or parameter that means something is refused when it comes twice.
//   - A request is checked in this order: route and name, header syntax, the
//     body and its JSON, and only then anything about the stream.
//   - Catch-up answers that do not reach the tail may be kept by shared caches;
//     those that do must be checked again with their entity tag; answers to
//     live readers are kept only for the interval of the cursor they were asked
//     with.
//   - Text in an event stream is held back, with its offset, while its last
//     character is not whole. A reader who has been given everything else is not
//     told that it is up to date.
//   - Stream-Forked-From is a path below /v1/stream/, percent-encoded as in a
//     request: no URL, no query. Fork headers say nothing to POST and are 400.
//   - A sub-offset counts messages of a JSON stream whatever appends brought
//     them, and the bytes of one record otherwise.
//   - A stream that was deleted while forks of it live is 410 to everything but
//     PUT, also in the middle of a long poll; an event stream just ends.
//   - Control interfaces (__ds) are answered with 404.
package httpapi
