package blockcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"gocloud.dev/blob"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/stream"
)

// Segment says which object to read. All segments of a cache are of one
// cluster, so that an ID names one object.
type Segment struct {
	ID blobwal.SegmentID
	// Key of the object; when empty, it is made from the ID and Config.Cluster if
	// it is needed, which it is not while the segment is in memory.
	Key  string
	Size uint64 // bytes of the object
}

// Config configures a [Cache]. Bucket is required; a zero elsewhere stands for
// the default.
type Config struct {
	// Bucket is read from. The cache does not close it.
	Bucket *blob.Bucket

	// Cluster is whose segments these are; it is part of their keys.
	Cluster [16]byte

	// Peers are asked for recent segments before the bucket is. May be nil.
	Peers Peers

	// TailBytes bounds the memory of the ring of recent segments. Default 64 MiB.
	TailBytes int

	// BlockBytes bounds the memory of blocks and indexes that were fetched.
	// Default 64 MiB.
	BlockBytes int

	// ReadAheadMax bounds the bytes that one fetch for a sequential reader takes;
	// a single block may be larger. Default 1 MiB.
	ReadAheadMax int

	// Fetches is how many reads of the bucket run at a time. Default 64.
	Fetches int

	// TryTimeout bounds one try of a fetch. Default 10 s.
	TryTimeout time.Duration

	// Tries bounds the tries of a fetch. Default 4.
	Tries int

	// Deadline bounds a fetch with all its tries and its wait for its turn.
	// Default 20 s.
	Deadline time.Duration

	// Logger is told of objects that are spoiled, and at level info of those that
	// are missing, since only the log knows whether they may be. Default: nobody.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.TailBytes = cmp.Or(c.TailBytes, 64<<20)
	c.BlockBytes = cmp.Or(c.BlockBytes, 64<<20)
	c.ReadAheadMax = cmp.Or(c.ReadAheadMax, 1<<20)
	c.Fetches = cmp.Or(c.Fetches, 64)
	c.TryTimeout = cmp.Or(c.TryTimeout, 10*time.Second)
	c.Tries = cmp.Or(c.Tries, 4)
	c.Deadline = cmp.Or(c.Deadline, 20*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c *Config) validate() error {
	switch {
	case c.Bucket == nil:
		return errors.New("blockcache: a cache needs a Bucket")
	case c.TailBytes < 0 || c.BlockBytes < 0 || c.ReadAheadMax < 0:
		return errors.New("blockcache: TailBytes, BlockBytes and ReadAheadMax must not be negative")
	case c.Fetches < 0 || c.Tries < 0 || c.TryTimeout < 0 || c.Deadline < 0:
		return errors.New("blockcache: Fetches, Tries, TryTimeout and Deadline must not be negative")
	}
	return nil
}

// Cache serves blocks of segments. All methods are safe for concurrent use.
type Cache struct {
	config Config
	tail   *tail
	blocks *otter.Cache[entryKey, *entry]
	turns  *semaphore.Weighted // Fetches of them
	asks   *semaphore.Weighted // peerAsks of them
	peers  singleflight.Group  // of whole segments, by their ids
	hints  *semaphore.Weighted // three quarters of them, for fetches that nobody waits for
	crew   *crew
	ctx    context.Context // of the fetches
	cancel context.CancelFunc
	counters

	mu      sync.Mutex // guards all below, and what moves from them to blocks
	flights map[entryKey]*flight
	ahead   ahead
	young   *fifo // what was asked for last
}

// entryKey names what the block cache holds: a block by its number in the
// segment, or one of the two below.
type entryKey struct {
	id    blobwal.SegmentID
	block int32
}

const (
	indexEntry = -1 // the index of a large segment
	wholeEntry = -2 // a small segment
)

// entry is one of the three.
type entry struct {
	block *blobwal.Block
	index *segmentIndex
	whole *resident
}

// entryBytes is what the cache itself spends on an entry, roughly.
const entryBytes = 200

func weigh(_ entryKey, e *entry) uint32 {
	n := entryBytes
	switch {
	case e.block != nil:
		n += e.block.Size()
	case e.index != nil:
		n += e.index.MemoryBytes()
	case e.whole != nil:
		n += e.whole.bytes
	}
	return uint32(min(n, math.MaxUint32))
}

// New makes a cache. Close it.
func New(config Config) (*Cache, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	part := config.BlockBytes / 4
	most := config.BlockBytes / 8 * 3
	blocks, err := otter.New(&otter.Options[entryKey, *entry]{
		MaximumWeight: uint64(config.BlockBytes - part - most),
		Weigher:       weigh,
	})
	if err != nil {
		return nil, fmt.Errorf("blockcache: make the block cache: %w", err)
	}
	c := &Cache{
		config: config,
		tail:   newTail(config.TailBytes),
		blocks: blocks,
		turns:  semaphore.NewWeighted(int64(config.Fetches)),
		asks:   semaphore.NewWeighted(peerAsks),
		hints:  semaphore.NewWeighted(int64(config.Fetches+3) / 4 * 3),

		flights: make(map[entryKey]*flight),
		ahead:   newAhead(most),
		young: newFIFO(part, func(p *placed) {
			if p.again || p.bytes > part/2 { // what is so large had no time to be
				blocks.Set(p.key, p.entry)
			}
		}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.crew = newCrew(c.ctx, config.Fetches)
	return c, nil
}

// Close breaks off the fetches under way. The cache must not be used after it.
func (c *Cache) Close() { c.cancel() }

// Put keeps a segment that was just uploaded; object is its bytes, which nobody
// may change from here on. An object larger than the whole ring is not kept, nor
// is a packed segment: its records are no news.
func (c *Cache) Put(segment Segment, object []byte) {
	if !blobwal.IsPacked(object) {
		c.tail.put(segment.ID, object)
	}
}

// Recent is a segment's whole object, if it is still in memory as it was uploaded.
// It must not be written to.
func (c *Cache) Recent(id blobwal.SegmentID) ([]byte, bool) {
	if r := c.tail.get(id); r != nil {
		return r.object, true
	}
	return nil, false
}

// Block is the block of a segment that holds the record with this ordinal. The
// caller goes on with the records before to: if the block must be fetched, those
// come with it as far as one get goes.
//
// The error is ctx's, or a [*stream.Error] of CodeUnavailable (the bucket could
// not be reached) or CodeInternal (the object is not what the log says it is; it
// wraps a [*blobwal.ObjectError], whose fault tells a missing object from a
// spoiled one). Of a missing object, see [blobwal.Missing], the caller should
// ask the log again: the segment may have been collected since it asked last,
// and its records be in another.
func (c *Cache) Block(ctx context.Context, segment Segment, ordinal, to uint32) (*blobwal.Block, error) {
	if recent := c.recent(ctx, segment); recent != nil {
		return c.fromWhole(segment, recent, ordinal)
	}
	if segment.Size <= wholeBytes {
		whole, err := c.whole(ctx, segment)
		if err != nil {
			return nil, err
		}
		return c.fromWhole(segment, whole, ordinal)
	}
	index, err := c.index(ctx, segment)
	if err != nil {
		return nil, err
	}
	info, ok := index.Find(ordinal)
	if !ok {
		return nil, c.refuse(segment, noRecord(ordinal, index.Records))
	}
	e := c.find(entryKey{segment.ID, int32(info.Number)})
	if e != nil {
		c.blockHits.Add(1)
	} else {
		c.misses.Add(1)
		e, err = c.wait(ctx, segment, entryKey{segment.ID, int32(info.Number)}, func() *flight {
			return c.flyNeeded(segment, index, info.Number, to)
		})
		if err != nil {
			return nil, err
		}
	}
	return e.block, nil
}

// fromWhole is a block of an object that is in memory.
func (c *Cache) fromWhole(segment Segment, whole *resident, ordinal uint32) (*blobwal.Block, error) {
	block, err := whole.block(ordinal)
	if err != nil {
		return nil, c.refuse(segment, err)
	}
	return block, nil
}

func noRecord(ordinal, records uint32) error {
	return &blobwal.ObjectError{Fault: blobwal.FaultFormat, Detail: fmt.Sprintf(
		"the log names record %d, and it has %d", ordinal, records)}
}

// key is the key of a segment's object.
func (c *Cache) key(segment Segment) string {
	if segment.Key != "" {
		return segment.Key
	}
	return blobwal.Key(c.config.Cluster, segment.ID)
}

// refuse is the answer for an object that is not what it must be.
func (c *Cache) refuse(segment Segment, err error) error {
	err = blobwal.WithKey(c.key(segment), err)
	if blobwal.Missing(err) { // as it is once it was collected
		c.missing.Add(1)
		c.config.Logger.Debug("a segment is missing", "error", err) // who asked knows whether it may be
	} else {
		c.corrupt.Add(1)
		c.config.Logger.Error("a segment cannot be read", "error", err)
	}
	return stream.Errorf(stream.CodeInternal, "%w", err)
}
