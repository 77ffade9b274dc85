// Package wire is what both protocols put on the wire: header names, media
// types, batch formats, event-stream framing, offset tokens, cursors and the
// bodies of errors and lists. Servers and clients share it, so that each format
// is written and read in one place. It knows bytes, not HTTP handlers.
//
// # Batches
//
// Binary formats, all integers big-endian:
//
//	append  u8 1 | u32 n | n × record
//	read    u8 1 | u32 n | n × ( u64 seq | i64 timestamp_ms | record )
//	record  u32 h | h × ( u32 len | name | u32 len | value ) | u32 len | body
//
// JSON formats; of body and body_b64 (standard base64, padded) exactly one:
//
//	append  {"records":[{"headers":{"k":"v"},"body":"text"},{"body_b64":"…"}]}
//	read    [{"seq":0,"timestamp":1700000000000,"headers":{"k":"v"},"body":"text"}]
//
// The raw format is the bodies end to end, without a separator, JSON streams
// included.
//
// Decoders check every count and length against the bytes that remain before
// they allocate, so that a decoder allocates at most [MaxAmplification] times
// the bytes it was given. They refuse trailing bytes, names and values that
// are not UTF-8, and in JSON an escaped half of a surrogate pair, which has no
// UTF-8 form. A batch to append has 1 to [stream.MaxRecords] records, more are
// [stream.CodeTooLarge]; they are counted, and their memory asked for ([Reserve]),
// before any is taken. A read may be empty.
// In JSON, keys that the format does not name are ignored, null is the same as
// an absent key, and a key of the format that comes twice is refused. Header
// order and repeated header names are kept in every format; a JSON object then
// has a key twice, of which most readers see the last.
//
// Decoded bodies share the memory of the input wherever the format allows it.
//
// # Event streams
//
// An event is a line "event: <name>", an optional line "id: <id>", one
// "data:<line>" for every line of its data and an empty line. No space follows
// "data:" unless the line begins with one, because readers drop the first
// ([BeginEvent], [AppendEventData], [EndEvent]). [EventReader] reads them back.
//
// Errors of this package are [*stream.Error] of code [stream.CodeBadRequest],
// unless a function says otherwise. All functions are safe for concurrent use;
// an [EventReader] belongs to one goroutine.
package wire
