package blobwal

import (
	"context"
	"time"

	"github.com/picomq/picomq/stream"
)

// maxPutTimes bounds how often a writer's timeouts count for one object.
const maxPutTimes = 256

// Reserve takes a sequence from the writer's counter, for an object that the
// caller makes: the writer will never use it. It may be called at any time, also
// after Close.
//
// Whoever takes a sequence must see that it is spent: committed, once the object
// is there, or given up. The order in which Sealed is called has nothing to do
// with it; a reserved sequence delays no segment, and none waits for it.
func (w *Writer) Reserve() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sequence++
	return w.sequence
}

// Put puts an object under the key of a reserved sequence, and returns when it
// is durable or given up. It takes no upload slot, so that appends do not wait
// for it: how many of them run at a time is the caller's to bound.
//
// The rules are those of segments: create-only, tried again until a deadline.
// Since PutTimeout and Deadline were chosen for objects of SegmentBytes, of
// larger ones a multiple counts: for each SegmentBytes begun one, at most 256.
//
// Errors are as in [Sealed].Err, and mean the same: the sequence must be given
// up, and the object may exist nevertheless. When ctx is done, or Close ends the
// writer, the upload is broken off and given up. After Close nothing is put.
func (w *Writer) Put(ctx context.Context, id SegmentID, object []byte) error {
	if err := w.enter(id); err != nil {
		return err
	}
	defer w.routines.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()

	times := min((len(object)+w.config.SegmentBytes-1)/w.config.SegmentBytes, maxPutTimes)
	result, err := w.put(ctx, Key(w.config.Identity.Cluster, id), object, time.Duration(max(times, 1)), nil)
	err = w.finalError(id, result.Tries, err)

	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(result, uint64(len(object)), err)
	return err
}

// enter counts a caller of Put among the routines that Close waits for.
func (w *Writer) enter(id SegmentID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case id != w.config.Identity.Segment(id.Sequence) || id.Sequence == 0 || id.Sequence > w.sequence:
		return stream.Errorf(stream.CodeInternal, "segment %s was not reserved from this writer, whose last is %s",
			id, w.config.Identity.Segment(w.sequence))
	case w.fatal != nil:
		return w.fatal
	case w.closed:
		return errClosed()
	}
	w.routines.Add(1)
	return nil
}
