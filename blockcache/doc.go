// Package blockcache is the memory between readers and the bucket: recent
// segments whole, older ones by block.
//
//	cache, err := blockcache.New(blockcache.Config{Bucket: bucket, TailBytes: 256 << 20, BlockBytes: 256 << 20})
//	cache.Put(segment, object)                              // as uploaded, once it is durable
//	cache.Ahead(segment, ordinal, ordinal+n)                // these will be asked for
//	block, err := cache.Block(ctx, segment, ordinal)        // from memory or the bucket
//
// # Where a block comes from
//
//  1. The tail: a ring of whole segments as they were uploaded, shared by all
//     streams, the oldest out first. Appending costs a reader nothing and a
//     writer no copy: the ring keeps the uploaded bytes themselves. Packed
//     segments do not enter it: they would push out what is new with what is old.
//     What is not in it may be in the ring of the node that wrote it: with
//     [Config.Peers] that one is asked first, once for all readers, and what it
//     answers is verified byte for byte before it enters the ring here.
//  2. What was fetched: blocks, indexes and small objects, each with its weight in
//     bytes. It has three parts. Ahead is what nobody asked for yet. Young is what
//     was asked for last, the oldest out first, so that what is read once or by a
//     few readers that follow each other passes by. What was asked for again while
//     it was young goes on into the block cache, where what is rarely read goes
//     first.
//  3. The bucket. Of an object of at most 256 KiB the whole is fetched with one
//     get. Of a larger one the index is, once, and then ranges of blocks.
//
// # Fetching
//
// A fetch is a flight: of one entry, or of blocks that follow each other. Whoever
// needs one of them while it is under way waits for it, so nothing is fetched
// twice at a time. A flight belongs to none of its callers: one that goes away
// ends its own wait only.
//
// Two things are fetched before they are asked for. One is what callers announce
// ([Cache.Ahead]), because they know what comes next: exactly that, in gets of at
// most ReadAheadMax. The other is neighbours. A segment that is asked for several
// small pieces within seconds, of whatever streams, is being read all over. A fetch
// for a reader that waits then takes what follows along, 256 KiB at first and four
// times as much each time, or what comes before where that is in memory. A single
// reader of a stream gets no bytes of others.
//
// Reading ahead is a favour. It takes at most three quarters of the Fetches, so readers
// that wait always find turns, and only as many bytes as its part has room for. What
// waits there for its reader stays for five seconds at least: it is not pushed out
// by what is read ahead for others, which are told that there is no room.
//
// Errors of the bucket are tried again with growing, jittered pauses; when that
// does not help, the caller gets a [stream.Error] of code CodeUnavailable with
// RetryAfter. A missing or spoiled object is not tried again: its error is of
// code CodeInternal, wraps the [blobwal.ObjectError] that names the object, and
// is counted once for each caller that is told. What is wrong in the midst of what
// was read ahead is told to whoever asks for that. Blocks are checked when they
// are fetched, those of whole objects when they are first asked for, and never
// handed out before.
//
// A segment is missing when it was collected, after another one took its
// records: whoever is answered [blobwal.Missing] asks the log again where the
// records are. What the cache still holds of a collected segment is as right as
// ever; [Cache.Evict] frees the memory.
//
// # Bounds
//
// TailBytes bounds the ring and BlockBytes the rest, three eighths of it what was read
// ahead and a quarter what is young, all including what decoding adds: indexes,
// record ends, bookkeeping. The block cache may exceed its bound for a moment while
// it evicts, and what was read ahead may come to twice its part where decoding adds
// much or readers leave, until it is asked for or makes room. Fetches under way hold
// besides at most 16 segments from peers, and Fetches times the largest of
// ReadAheadMax, the largest block and the largest index, which of a packed segment
// is some 4 MB while it is decoded ([blobwal.MaxPackedBlocks]); of those that read
// ahead the bytes are counted as read ahead already. An index that is larger than
// three eighths of BlockBytes is fetched anew for every block that is: keep it above
// 16 MiB. As many goroutines as Fetches stay for the next ones until the cache is
// closed. A block that was handed out lives as long as its reader holds it; a block
// of a whole object keeps all of it in memory that long.
package blockcache
