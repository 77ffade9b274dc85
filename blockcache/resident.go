package blockcache

import (
	"sync"
	"sync/atomic"

	"github.com/picomq/picomq/blobwal"
)

// resident is a whole object in memory. Its index and its blocks are decoded,
// and their checksums verified, when they are first asked for: of most segments
// nobody asks.
type resident struct {
	object []byte
	bytes  int // memory, all blocks decoded

	once   sync.Once
	index  *blobwal.Index
	blocks []atomic.Pointer[blobwal.Block] // by number
	err    error
}

func newResident(object []byte) *resident {
	return &resident{object: object, bytes: blobwal.Footprint(object)}
}

func (r *resident) parse() {
	r.index, r.err = blobwal.ParseObject(r.object)
	if r.err == nil {
		r.blocks = make([]atomic.Pointer[blobwal.Block], len(r.index.Blocks))
	}
}

// block is the block that holds a record. Two callers may decode the same block
// at once; either result serves.
func (r *resident) block(ordinal uint32) (*blobwal.Block, error) {
	r.once.Do(r.parse)
	if r.err != nil {
		return nil, r.err
	}
	info, ok := r.index.Find(ordinal)
	if !ok {
		return nil, noRecord(ordinal, r.index.Records)
	}
	kept := &r.blocks[info.Number]
	if b := kept.Load(); b != nil {
		return b, nil
	}
	b, err := blobwal.DecodeBlock(info, r.object[info.Position:info.Position+uint64(info.Length)])
	if err != nil {
		return nil, err
	}
	kept.Store(b)
	return b, nil
}
