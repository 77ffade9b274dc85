// Package blockcache is the memory between readers and the bucket: recent
// segments whole, older ones by block.
//
//	cache, err := blockcache.New(blockcache.Config{Bucket: bucket, TailBytes: 256 << 20, BlockBytes: 256 << 20})
//	cache.Put(segment, object)                              // as uploaded, once it is durable
//	block, err := cache.Block(ctx, segment, ordinal, true)  // from memory or the bucket
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
//  2. The block cache: blocks, indexes and small objects that were fetched, each
//     with its weight in bytes; what is rarely read goes first.
//  3. The bucket. Of an object of at most 64 KiB the whole is fetched with one
//     get. Of a larger one the index is, once, and then ranges of blocks.
//
// # Fetching
//
// Callers that need the same block at once share one fetch. A fetch belongs to
// none of them: a caller that goes away ends its own wait only. Fetches that
// need not be shared may overlap by the blocks they read ahead.
//
// A sequential reader is read ahead: the fetch of its block takes the following
// blocks of the same stream in the segment with it, 128 KiB at first, and twice
// as much whenever the reader has come to where the last fetch ended, up to
// ReadAheadMax. Blocks of other streams are not taken: they are neighbours by
// chance.
//
// Errors of the bucket are tried again with growing, jittered pauses; when that
// does not help, the caller gets a [stream.Error] of code CodeUnavailable with
// RetryAfter. A missing or spoiled object is not tried again: its error is of
// code CodeInternal, wraps the [blobwal.ObjectError] that names the object, and
// is counted. Bytes are checked when they enter the cache, never later.
//
// A segment is missing when it was collected, after another one took its
// records: whoever is answered [blobwal.Missing] asks the log again where the
// records are. What the cache still holds of a collected segment is as right as
// ever; [Cache.Evict] frees the memory.
//
// # Bounds
//
// TailBytes bounds the ring and BlockBytes the rest, both including what
// decoding adds: indexes, record ends, bookkeeping. The block cache may exceed
// its bound for a moment while it evicts. Fetches under way hold besides at most
// 16 segments from peers, and Fetches times the largest of ReadAheadMax, the largest block and the largest
// index, which of a packed segment is some 4 MB while it is decoded
// ([blobwal.MaxPackedBlocks]). An index that is larger than BlockBytes is fetched
// anew for every block that is: keep it above 16 MiB. A block that
// was handed out lives as long as its reader holds it; a block from the tail
// keeps its whole segment in memory that long.
package blockcache
