// Package archive is the format of the log's history in the bucket: objects
// that hold consecutive rows of the command log, whole and in order, each
// naming the one before it by digest. Rows may leave SQL once they are here.
//
//	w, err := archive.NewWriter(cluster, archive.Link{}) // the first object
//	for w.Fits(row) { err = w.Add(row) }
//	object, err := w.Seal()
//	err = bucket.WriteAll(ctx, object.Key(), object.Bytes, createOnly)
//
//	link, err := archive.Walk(ctx, bucket, archive.Prefix(cluster), archive.Link{}, until, visit)
//
// # Keys
//
//	<cluster>/0000/archive/<first>-<last>
//
// 0000 is the log; first and last are the indexes of an object's first and last
// row, 16 lower-case hexadecimal digits each, so that a listing gives the
// objects in order and tells which one holds an index. The header says which
// times it holds. Objects are written create-only and never changed.
//
// # Object, format version 1
//
// Fixed integers are big-endian, varints are LEB128 (signed ones zigzag). CRC
// is CRC-32C (Castagnoli). An object is a header and one zstd stream.
//
//	header, 164 bytes
//	  0  8  magic "PICOLOG\n"
//	  8  2  version, 1
//	 10  2  log, 0
//	 12  4  0
//	 16 16  cluster
//	 32  8  index of the first row, at least 1
//	 40  8  index of the last row
//	 48  8  row id of the row before the first, 0 when there is none
//	 56  8  row id of the last row
//	 64  8  earliest database time of its rows, Unix milliseconds
//	 72  8  latest
//	 80 32  digest of the object before, zeros when there is none
//	112 32  SHA-256 of the rows, uncompressed
//	144  8  length of the rows, uncompressed
//	152  8  length of the rows, compressed: the rest of the object
//	160  4  CRC of bytes 0 to 159
//
//	row, for each index from first to last
//	     8  row id
//	varint  database time, less that of the row before (of the first: less 0)
//	uvarint node, epoch, sequence of the origin
//	uvarint commands, appends
//	uvarint length of kinds, and kinds
//	uvarint length of the payload, and the payload
//
// That is every column of the table command_log: index and previous row id
// follow from the place, the payload's digest from the payload.
//
// # Digest
//
// An object's digest is the SHA-256 of bytes 0 to 151 of its header. It stands
// for every row, through their hash, and for all objects before, through theirs,
// but not for how the rows were compressed: two objects with one digest hold the
// same history though another release of the compressor wrote them.
//
// # Bounds
//
// An object has at most [MaxRows] rows and [MaxBytes] of them uncompressed. A
// writer seals ([Writer.Fits]) at [FullBytes] of payload, or where a row is more
// than [FullTime] after the first.
//
// # What a reader believes
//
// Nothing. Lengths are bounded before memory is taken; a row's payload is at
// most commands.MaxPayload. [Reader.Next] hands rows out as they are decoded,
// and says io.EOF only after it compared all that the header claims; whoever
// acts on rows before that must be able to take it back. A damaged object is
// [ErrDamaged], one of a newer release [ErrVersion], and objects that do not
// follow each other a [*ChainError].
package archive
