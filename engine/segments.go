package engine

import (
	"context"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/stream"
)

// Identity is whose segments this engine writes now. Its epoch changes with
// [Engine.Rejoin].
func (e *Engine) Identity() blobwal.Identity {
	w := &e.writers
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.config.Identity
}

// Reserve is a sequence of this node's for a packed segment. It must be used by a
// Pack or given up.
func (e *Engine) Reserve() uint64 {
	w := &e.writers
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current.Reserve()
}

// Store puts a packed segment's object into the bucket, with the writer's retries
// and deadline. One of an epoch that is over is refused.
func (e *Engine) Store(ctx context.Context, id blobwal.SegmentID, object []byte) error {
	w := &e.writers
	w.mu.Lock()
	writer, over := w.current, w.moving != nil || !w.of(id.Epoch)
	w.mu.Unlock()
	if over {
		return stream.Errorf(stream.CodeUnavailable, "packed segment %v is of an epoch that is over; nothing was stored", id)
	}
	err := writer.Put(ctx, id, object)
	if err == nil || !w.replaced(writer) {
		e.stored(err)
	}
	return err
}

// GiveUp says that no command will come for these segments: the next commit names
// them, and Apply refuses them from then on.
func (e *Engine) GiveUp(ids ...blobwal.SegmentID) {
	for _, id := range ids {
		e.giveUp(id.Epoch, id.Sequence)
	}
}
