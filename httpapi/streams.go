package httpapi

import (
	"context"

	"github.com/picomq/picomq/stream"
)

// Streams is what the protocols are served from. An implementation is safe for
// concurrent use. An error that is a refusal is a *[stream.Error]; any other
// error is internal, except the context's own once it is done.
type Streams interface {
	// Create makes a stream, or finds one of the same configuration. It calls
	// r.Parse, if at all, before it returns and on the caller's goroutine.
	Create(ctx context.Context, name stream.Name, r *stream.CreateRequest) (stream.Created, error)
	// Append adds records, closes, or both, in one step. When it returns no error,
	// the bodies of r.Records are the caller's again, who may overwrite them; after
	// an error they may still be in use.
	Append(ctx context.Context, name stream.Name, r *stream.AppendRequest) (stream.Appended, error)
	// Trim drops the records below an offset, which is clamped to the tail.
	Trim(ctx context.Context, name stream.Name, to stream.Offset) (stream.Info, error)
	// Delete removes a stream; its name is free at once, unless forks of it live:
	// then it is [stream.CodeDeleted] to all until the last of them goes.
	Delete(ctx context.Context, name stream.Name) error
	// Head describes a stream without keeping it from expiring.
	Head(ctx context.Context, name stream.Name) (stream.Info, error)
	// Read returns records that exist, and none at the tail.
	Read(ctx context.Context, name stream.Name, r stream.ReadRequest) (*stream.Chunk, error)
	// Wait returns when the stream's tail is past r.After, or it is closed, or
	// it is gone ([stream.CodeNotFound], [stream.CodeDeleted]), or ctx is done
	// (its error), or r.Until is closed: then it returns the stream as it was
	// last. It keeps a sliding expiry alive while it waits.
	Wait(ctx context.Context, r stream.WaitRequest) (stream.Info, error)
	// List returns a page of names.
	List(ctx context.Context, r stream.ListRequest) (stream.Page, error)
}
