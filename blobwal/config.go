package blobwal

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gocloud.dev/blob"
)

// WriterConfig configures a [Writer]. Bucket, Identity and Sealed are required;
// a zero elsewhere stands for the default.
type WriterConfig struct {
	// Bucket takes the segments. The writer does not close it.
	Bucket *blob.Bucket

	// Identity is whose segments these are. Its incarnation's marker must have
	// been written (see [WriteMarker]).
	Identity Identity

	// Interval is the least time between two seals, unless a group is full: the
	// knob between latency and the price of puts. 0 means none, as is usual for
	// local buckets; for clouds 50 ms is.
	Interval time.Duration

	// Pace is the least time between two seals while a segment is under way (put, or
	// in a crowd undecided), unless a group has a quarter of SegmentBytes. Default
	// 1 ms. Where puts wait for each other, as the syncs of one disk do, and for the
	// log's commit, a pace longer than both keeps small segments from going side by
	// side: they take longer then and are smaller.
	Pace time.Duration

	// Slots is how many uploads run at a time. Default 8, at most 1024.
	Slots int

	// SegmentBytes is the size at which a group is full. A single append may be
	// larger; it is then a segment of its own. Default 4 MiB.
	SegmentBytes int

	// MaxAppends is the number of appends at which a group is full. Default
	// 16,384.
	MaxAppends int

	// MaxAppendBytes is the size, encoded, of the largest append that is taken.
	// Default 32 MiB, at most BacklogBytes and half of MaxObjectBytes.
	MaxAppendBytes int

	// BacklogBytes bounds the appends, in bytes, that were added and not yet
	// delivered; beyond it Add refuses. Default 64 MiB.
	BacklogBytes int

	// PutTimeout bounds one try of an upload. Default 10 s.
	PutTimeout time.Duration

	// Deadline bounds an upload with all its tries. Default 30 s.
	Deadline time.Duration

	// Hedge has a segment put a second time, beside the first, when that takes
	// unusually long: for buckets behind a network, where a few requests in a
	// hundred do.
	Hedge bool

	// Sealed is given every segment, uploaded or given up, in the order that the
	// package comment promises, and sees to it that its Decided is called. It is never called concurrently and must not
	// block or call back into the writer's Close.
	Sealed func(*Sealed)

	// Observe, when set, is told of every segment just before Sealed is, on the
	// same goroutine: for metrics.
	Observe func(Seal)

	// Logger is told of failed tries and segments given up. Default: nobody.
	Logger *slog.Logger
}

// Sealed is a segment whose upload has ended.
type Sealed struct {
	ID      SegmentID
	Key     string
	Size    uint64    // bytes of the object
	Object  []byte    // as uploaded; must not be written to
	Appends []*Append // in the order of their records' ordinals
	Bytes   []uint64  // that each append takes in its blocks; together at most Size
	Records uint32
	// Err, when not nil, says that the upload was abandoned and the sequence is
	// given up. It is a *stream.Error: of CodeUnavailable when the bucket could
	// not be reached in time, of CodeInternal with an [*ObjectError] of
	// [FaultForeign] behind it when the key holds somebody else's object. In the
	// first case the object may exist nevertheless.
	Err error

	writer *Writer // nil in one that no writer made
}

// Seal is what metrics want to know of a segment.
type Seal struct {
	Appends, Streams, Blocks int
	Records                  uint32
	Bytes                    int           // of the object
	Waited                   time.Duration // from the first append to the seal
	Put                      time.Duration // of the try that succeeded; 0 when given up
	Tries                    int
	GivenUp                  bool
}

func (c WriterConfig) withDefaults() WriterConfig {
	c.Pace = cmp.Or(c.Pace, time.Millisecond)
	c.Slots = cmp.Or(c.Slots, 8)
	c.SegmentBytes = cmp.Or(c.SegmentBytes, 4<<20)
	c.MaxAppends = cmp.Or(c.MaxAppends, 16<<10)
	c.BacklogBytes = cmp.Or(c.BacklogBytes, 64<<20)
	c.MaxAppendBytes = cmp.Or(c.MaxAppendBytes, min(32<<20, c.BacklogBytes))
	c.PutTimeout = cmp.Or(c.PutTimeout, 10*time.Second)
	c.Deadline = cmp.Or(c.Deadline, 30*time.Second)
	if c.Observe == nil {
		c.Observe = func(Seal) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c *WriterConfig) validate() error {
	switch {
	case c.Bucket == nil:
		return errors.New("blobwal: a writer needs a Bucket")
	case c.Sealed == nil:
		return errors.New("blobwal: a writer needs a Sealed callback")
	case c.Interval < 0 || c.Pace < 0 || c.PutTimeout < 0 || c.Deadline < 0:
		return errors.New("blobwal: Interval, Pace, PutTimeout and Deadline must not be negative")
	case c.Slots < 1 || c.Slots > 1024:
		return fmt.Errorf("blobwal: Slots is %d and must be 1 to 1024", c.Slots)
	case c.SegmentBytes < 1 || c.SegmentBytes > MaxObjectBytes/2:
		return fmt.Errorf("blobwal: SegmentBytes is %d and must be 1 to %d", c.SegmentBytes, MaxObjectBytes/2)
	case c.MaxAppends < 1:
		return fmt.Errorf("blobwal: MaxAppends is %d and must be at least 1", c.MaxAppends)
	case c.MaxAppendBytes < 1 || c.MaxAppendBytes > min(c.BacklogBytes, MaxObjectBytes/2):
		return fmt.Errorf("blobwal: MaxAppendBytes is %d and must be 1 to the smaller of BacklogBytes (%d) and %d",
			c.MaxAppendBytes, c.BacklogBytes, MaxObjectBytes/2)
	}
	return nil
}
