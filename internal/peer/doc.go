// Package peer lets the nodes of a cluster read each other's recent segments from
// memory, so that a reader on one node of what was written through another just now
// does not wait for the bucket.
//
//	GET /segments/<key>   Authorization: Bearer <secret>
//
//	200  the object, whole
//	401  the secret is wrong
//	404  it is not in memory: read it from the bucket
//
//	POST /insert/<cluster>   the same; a row for the log, as JSON, with its digest
//
//	200  the row that it became part of, with its digest, or the log's error
//	4xx  nothing was inserted: it is a node of another cluster, for one
//	     no answer: look it up in the log
//
// The key is that of the object in the bucket (package blobwal), so it names the
// cluster, too. What is inserted is checked by the log, whoever inserts it (package
// combine).
//
// # What it promises
//
// Nothing: whoever asks verifies what comes and has the bucket to fall back to. A
// [Client] so gives up early. One question takes at most [Config.Timeout]. A node
// that failed [tolerated] times in a row, by an error, a silence or a lie, is not
// asked for a while that doubles from a second to a minute, and then once. Recent
// segments leave a node's memory the oldest first, so after a 404 nothing is asked
// for that is older.
//
// # Security
//
// The secret is the same on all nodes and is compared in constant time. It travels
// as it is, and so do records: where the network between nodes is not trusted, the
// addresses must be https, behind a proxy that ends TLS.
//
// # Bounds
//
// A [Handler] holds no more than the objects that it sends, which are in memory
// anyway. A client reads at most the size that the log says, and has
// [idleConnections] idle connections to a node.
package peer
