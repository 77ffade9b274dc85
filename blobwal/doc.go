// Package blobwal is the write-ahead log in the bucket: it groups the records
// of many appends into immutable objects, segments, puts them under keys that
// only this start of this node can use, and reads them back.
//
// It knows bytes and buckets, nothing of the command log: a segment that is
// durable is handed to a callback, and what its records mean is decided there.
//
//	w, err := blobwal.NewWriter(blobwal.WriterConfig{
//		Bucket: bucket, Identity: identity, Interval: 50 * time.Millisecond,
//		Sealed: func(s *blobwal.Sealed) { propose(s, s.Decided) },
//	})
//	err = w.Add(&blobwal.Append{Stream: id, Records: records})
//
// # Keys
//
//	picomq-cluster                                        the cluster's identity
//	<cluster>/<log>/marker/<node>/<epoch>                 the incarnation that owns an epoch
//	<cluster>/<log>/wal/<node>/<epoch>/<group>/<seq>.seg  a segment; group is seq / 4096
//	<cluster>/<log>/snapshots/…, archive/…, applied/…     the replica's: see there
//
// Numbers are lower-case hexadecimal of fixed width (cluster 32 digits, log 4,
// node 8, group 13, the others 16), so that keys sort as their numbers do. Those
// above the last line are written create-only and never changed. Sequences count from 1. [ParseKey]
// reads a segment's key back, and [ListSegments] lists what is under a prefix.
//
// # Segment, format version 1
//
// Integers are big-endian. CRC is CRC-32C (Castagnoli). Everything lies end to
// end, without gaps: header, blocks, index, footer.
//
//	header, 72 bytes
//	 0  8  magic "PICOSEG\n"
//	 8  2  version, 1
//	10  2  flags: 1 packed; others are 0
//	12 16  cluster
//	28  2  log
//	30  2  0
//	32  4  node
//	36  8  epoch
//	44 16  incarnation
//	60  8  sequence, at least 1
//	68  4  CRC of bytes 0 to 67
//
//	block: consecutive records of one stream, n at least 1
//	 0  8  stream id; 0 in a block whose records come with their stream's creation
//	 8  4  n
//	12  1  flags: 1 JSON, 2 record headers, 4 packed; others are 0
//	13  1  0
//	14  2  m, length of the name: 0 unless the id is 0, then 1 to 1024
//	16  m  name
//	       with flag 4: 8 bytes base, the offset of the first record in its
//	       stream; 4 bytes t, 1 to n; then t spans, which say how many records
//	       have the same time: 4 bytes number of records, at least 1, and 8 bytes
//	       time, a signed number of Unix milliseconds
//	    4  for each record: end of its body, counted from the first body's start
//	       with flag 2: 4 bytes length of the record headers, then for each record
//	       its number of headers, and for each header the length of the name, the
//	       name, the length of the value, the value; numbers are LEB128 varints
//	       bodies end to end; with flag 1 one ',' between two neighbours
//
//	index
//	 0 72  the header again, so that whoever reads only the end knows whose it is
//	    20 for each block, in order
//	 0  8  stream id
//	 8  4  length of the block
//	12  4  n
//	16  4  CRC of the whole block
//
//	footer, 36 bytes
//	 0  8  position of the index
//	 8  4  length of the index
//	12  4  CRC of the index
//	16  4  number of records in all blocks
//	20  2  version, 1
//	22  2  0
//	24  4  CRC of bytes 0 to 23
//	28  8  magic "\nGESOCIP"
//
// A block is at most [MaxBlockBytes] unless it holds a single record; what does
// not fit goes on in the next block of the same stream. The name is carried
// only where it says something the id does not: of a known stream the log, its
// snapshots and its archive know the name, and repeating it in each block would
// double the size of small appends.
//
// A packed segment is one that a [Packer] made of records read from others, for
// compaction. All its blocks are packed, and no block of other segments is: in
// what the writer wrote, only the log knows the offsets, and all records have
// the time of their commit. A packed block always has an id and no name. Its
// records have the offsets from base on without gaps; the numbers of its spans
// add up to n, and neighbouring spans differ in time.
//
// Records of a segment are numbered through all its blocks: the first record
// of a block has as its ordinal the number of records before the block. A
// block's position follows from the lengths before it. Neither is stored, so
// neither can disagree.
//
// Since ',' separates the bodies of a JSON stream, '[' + any run of them + ']'
// is an array, and in other streams any run of bodies is a slice.
//
// # What is checked
//
// Every byte lies under a CRC or is compared with a constant: header, each
// block, index and footer have their own, and the lengths must add up to the
// object's size. A cut anywhere moves the footer. So a reader gets the bytes
// that were written or an [*ObjectError] that names the object; lengths are
// checked against the size before anything is allocated. An object under
// another segment's key is refused by the identity in its index.
//
// # Writing
//
// Appends are grouped by stream: streams in the order of their first append,
// appends of one stream in the order they came. A group is sealed, given the
// next sequence, when it holds something and one of [WriterConfig].Slots uploads
// is free, and
//
//   - no upload is under way and, if more than 64 appends are unanswered, no commit
//     either (see [Sealed.Decided]): at once;
//   - else when since the last seal max(P/Slots, [WriterConfig].Pace) has passed,
//     P being the moving mean put time, or P/Slots if the group has a quarter of
//     [WriterConfig].SegmentBytes;
//   - but never within [WriterConfig].Interval of the last seal, if one is set;
//   - a full group is sealed without regard to these times.
//
// So a lone client never waits, nor does an append after a pause, and under load
// the puts are spread evenly over the time a put takes. With a pace longer than a
// put and a commit these follow one another instead, and only large groups go side
// by side.
//
// A put is create-only. "It exists" is success when the bytes are equal (our
// own answer was lost) and fatal when they are not (another process uses our
// identity). Everything else is retried under the same key until the deadline;
// then the sequence is given up: it will never be written to again by this
// writer, but the object may exist, and whoever commits must rule it out.
//
// With [WriterConfig].Hedge a segment's put that takes longer than both what 95 %
// of the last 128 took and twice their median is made once more beside the first,
// with the same key and bytes. The first success counts, also that of finding our
// own object there, and the other put is broken off. At most one put in twenty is
// hedged, so that a bucket which is slow for all is not asked for more than a
// twentieth more. Packed objects are not.
//
// Segments are delivered to [WriterConfig].Sealed in an order such that one
// comes after every earlier one that shares a stream with it, whether those
// were uploaded or given up. Segments without a common stream never wait for
// each other. A stream not yet known by id is known by its name.
//
// # Packing
//
// A [Packer] takes runs as blocks give them, copies their bytes and cuts new
// blocks: one goes on while stream, kind and the row of offsets do, up to
// [MaxBlockBytes]. Its object follows from the records alone. It is put under a
// sequence of the writer's own epoch, taken with [Writer.Reserve], by
// [Writer.Put], create-only as all others are. It is not delivered to Sealed and
// waits for nothing; who packs has to see to it that its records are still
// wanted when it is there.
//
// # What the bucket is trusted with
//
// A put answered with success is durable and visible at once to every reader; a
// create-only put has one winner. Nothing else: not listing order, not that a
// failed put left nothing behind, not that bytes come back unharmed.
package blobwal
