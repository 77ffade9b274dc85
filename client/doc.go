// Package client speaks both protocols of a PicoMQ server, and Durable Streams
// to any other server.
//
//	c, err := client.New("http://127.0.0.1:4437", client.Options{})
//	_, err = c.Create(ctx, "logs/api", client.CreateRequest{Config: stream.Config{ContentType: "text/plain"}})
//	_, err = c.Append(ctx, "logs/api", &stream.AppendRequest{Records: []stream.Record{{Body: line}}})
//	for chunk, err := range c.Tail(ctx, "logs/api", client.TailRequest{From: client.Start()}) {
//		…
//	}
//
// # Positions
//
// A [Position] is where a read begins. Pico counts records, so its positions
// are numbers; an offset of Durable Streams is a token that only its server
// understands, and the client gives back what it was given. Only where a
// request needs arithmetic that Durable Streams lacks ([Back], [At]) the client
// relies on the tokens of PicoMQ.
//
// # Forks
//
// A create with a [ForkRequest] makes a stream that begins with another's
// records. [Client.Head] tells how a stream began and how many live forks it has.
// A stream that was deleted while forks of it live is [stream.CodeDeleted]; a read
// of Durable Streams from an offset cannot tell that from [stream.CodeTrimmed].
//
// # What is tried again
//
// A request that was refused because a queue was full wrote nothing and is
// repeated. Appends with a producer are repeated also when the connection broke
// or the server could not say what happened: the producer's number makes the
// second a duplicate of the first. Nothing else is repeated. Pauses grow from
// 100 ms to 5 s, or are what Retry-After asks for, and the whole takes at most
// [Options.RetryFor].
//
// [Client.Tail] goes on from the last position it yielded, without gap or
// repeat, for as long as its context lasts; only its first request must
// succeed.
//
// # Errors
//
// A refusal is a [*stream.Error] with the code and fields that the answer
// carried. So is a failure of the connection. [stream.CodeUnavailable] means that
// the request never left, changes nothing, or that the server says that it wrote
// nothing: whoever repeats it does not do it twice. [stream.CodeOutcomeUnknown]
// means that it may have been carried out. A context that ends is reported as its own error.
// What a protocol cannot express is [stream.CodeUnsupported], before anything
// is sent.
//
// # Bounds
//
// A response, and an event of a live read, is held in memory whole, up to
// [Options.MaxResponse] bytes. Nothing is buffered ahead of the consumer. A
// Client is safe for concurrent use and starts no goroutine that outlives a
// call, idle connections aside.
package client
