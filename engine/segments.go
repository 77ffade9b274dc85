package engine

import (
	"context"

	"github.com/picomq/picomq/blobwal"
)

// Reserve is a sequence of this node's for a packed segment. It must be used by a
// Pack or given up.
func (e *Engine) Reserve() uint64 { return e.writer.Reserve() }

// Store puts a packed segment's object into the bucket, with the writer's retries
// and deadline.
func (e *Engine) Store(ctx context.Context, id blobwal.SegmentID, object []byte) error {
	err := e.writer.Put(ctx, id, object)
	e.stored(err)
	return err
}

// GiveUp says that no command will come for these sequences: the next commit
// names them, and Apply refuses them from then on.
func (e *Engine) GiveUp(sequences ...uint64) { e.giveUp(sequences...) }
