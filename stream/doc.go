// Package stream is the vocabulary of PicoMQ: the nouns that every other
// package shares, and nothing that does anything with them.
//
// A stream is an append-only sequence of records. Its [Name] is a path chosen
// by whoever creates it; its [ID] is a number given by the log and never used
// again, so that a name deleted and created anew is another stream. A record's
// [Offset] is its position: 0, 1, 2, … without gaps and stable for ever. Start
// is the first offset still retained, Tail the next one to be written.
//
// Requests and answers of the service are values of this package
// ([CreateRequest], [AppendRequest], [ReadRequest], …); the protocols translate
// HTTP into them and the engine carries them out. A refusal is an [*Error]
// whose [Code] says which rule refused and whose fields carry what the caller
// needs to act (the tail, the expected sequence, the epoch that fenced it).
//
// The package imports nothing of the project. All its values are plain data:
// safe to copy, and safe for concurrent use as long as nobody writes to the
// byte slices they share.
package stream
