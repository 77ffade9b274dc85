// Package fsck checks that the command log and the bucket of a cluster agree
// with each other and with themselves. It changes nothing unless it is told to
// repair, and then only deletes what provably nobody will ever ask for.
//
//	report, err := fsck.Run(ctx, fsck.Config{Log: log, Bucket: bucket, Found: print})
//
// # What is checked, in this order
//
//	log        every kept snapshot can be read and has the digest that the log
//	           names; the rows after the oldest one, replayed, give the digests of
//	           the later ones, and those that nodes reported. With Deep the replay
//	           begins with the first row ever written, from the archive.
//	history    the marks of applied rows, the snapshots and the archive name rows
//	           that the log has; a start's marker names its incarnation
//	archive    its objects can be read, follow each other by digest without gaps or
//	           overlaps, and meet the first row that the log kept
//	streams    the extents of each join from its start to its tail, each in a
//	           segment that is known and not doomed
//	bucket     every key is one of ours; what nothing refers to
//	segments   see below
//
// Of a segment that streams refer to: the object is there, has the size it was
// written with, and is the one its key names, by the start that the marker names;
// header, index and, unless Quick, every block match their checksums. Of every
// extent in it: its records are there; the block that holds them is the
// stream's, by number or by the name it was created with, or an ancestor's for
// records below a fork's end; packed blocks have its offsets, and times that
// never fall; JSON blocks are in JSON streams. The extents and bytes that the
// segment is said to have are those that streams have, and two streams have the
// same records only if they are relatives, under the same offsets.
//
// # What is found
//
// A [Finding] is about one object, stream, or the log. An error says that
// something stored is gone or wrong, a warning that something is there that
// should not be; both make a report that is not clean. An information is about
// what is as it should be and worth knowing, one for each class.
//
// Orphans are objects of segments that the log does not know. Of an epoch that
// is fenced, or with a sequence that was given up, none will ever be known: a
// warning. Of an epoch in force the commit may be on its way, or its node died
// and its next start fences it: an information.
//
// # Beside a running cluster
//
// A log that others write to goes on meanwhile. The check is of the state at one
// row, the head when it began, and what was put into the bucket for later rows is
// left out. An object that is missing is looked up once more at the end, in the
// state as it is then: it may have been collected in the meantime.
//
// # Bounds
//
// The state takes the memory that it takes in a server, once. Beside it: 40
// bytes for each segment, 40 for each of about a million extents at a time, and
// for each of [Config.Parallel] workers one object of up to
// [wholeBytes], or of a larger one [windowBytes] or one block. Findings are
// handed out as they are made, and at most [maxPending] held back.
//
// # Not checked
//
// What a record says. That times never fall from one segment of a stream to the
// next; they are compared within a segment, and with the bounds that the log has
// for it. Segments that nothing refers to, but that they are
// there. Whether the rest
// of the archive is newer than what the log recorded of it.
package fsck
