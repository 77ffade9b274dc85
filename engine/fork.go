package engine

import (
	"context"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

func checkFork(name stream.Name, f *stream.ForkRequest) error {
	switch {
	case f.From == name:
		return stream.Errorf(stream.CodeBadRequest, "the stream %q cannot be a fork of itself; name another stream, or another to fork from", name)
	case f.Sub > 0 && f.At == nil:
		return stream.Errorf(stream.CodeBadRequest, "a fork's sub-offset counts from its fork offset, which is missing; send both")
	default:
		return nil
	}
}

// resolveFork names the parent in a create, and where the fork ends. The
// configuration of a stream never changes, so what it returns holds for as long as
// the parent is the same stream, which Apply checks. A refusal is only as good as
// the view.
func (e *Engine) resolveFork(ctx context.Context, create *commands.Create, f *stream.ForkRequest) (stream.Config, error) {
	config := create.Config
	parent, err := e.lookup(ctx, f.From, 0, 0)
	switch {
	case stream.CodeOf(err) == stream.CodeNotFound:
		return config, stream.Errorf(stream.CodeNotFound, "there is no stream %q to fork", f.From)
	case stream.CodeOf(err) == stream.CodeDeleted:
		return config, parentDeleted(f.From)
	case err != nil:
		return config, err
	case config.ContentType != "" && stream.MediaType(config.ContentType) != stream.MediaType(parent.Config.ContentType):
		return config, stream.Errorf(stream.CodeConflict, "a fork of %q holds %s, not %q; leave the content type out to inherit it",
			f.From, parent.Config.ContentType, config.ContentType)
	case f.At != nil && *f.At < parent.Start:
		return config, forkTrimmed(f, parent.Start)
	case f.At != nil && *f.At > parent.Tail:
		return config, forkBeyond(f, parent.Tail)
	}
	if err := e.admit(ctx, uint64(parent.Extents)); err != nil {
		return config, err
	}
	create.Fork = &commands.Fork{Parent: parent.ID, At: f.At, Sub: f.Sub}
	if f.Sub > 0 {
		if err := e.resolveSub(ctx, create.Fork, f, &parent); err != nil {
			return config, err
		}
	}
	if config.ContentType == "" {
		config.ContentType = parent.Config.ContentType
	}
	if config.Expiry.Kind == stream.ExpiresNever {
		config.Expiry = parent.Config.Expiry
	}
	config.Retention = config.Retention.Or(parent.Config.Retention)
	return config, nil
}

// resolveSub checks a sub-offset against the records that it counts: messages of
// a JSON stream, of which there may be as many as there are, else bytes of the
// one record at the fork offset.
func (e *Engine) resolveSub(ctx context.Context, fork *commands.Fork, f *stream.ForkRequest, parent *statemachine.Stream) error {
	left := uint64(parent.Tail - *f.At)
	switch {
	case left == 0:
		return stream.Errorf(stream.CodeBadRequest, "the sub-offset %d goes beyond the tail %d of %q; leave it out", f.Sub, parent.Tail, f.From)
	case stream.IsJSON(parent.Config.ContentType):
		if f.Sub > left {
			return stream.Errorf(stream.CodeBadRequest, "the sub-offset %d goes beyond the tail of %q; at most %d messages follow the fork offset", f.Sub, f.From, left)
		}
		return nil
	}
	chunk := stream.Chunk{First: *f.At, Next: *f.At}
	if err := e.collect(ctx, parent, &chunk, stream.ReadRequest{MaxBytes: 1, MaxRecords: 1}); err != nil {
		return err
	}
	length := uint64(len(chunk.Runs[0].Body(0)))
	switch {
	case f.Sub > length:
		return stream.Errorf(stream.CodeBadRequest, "the sub-offset %d goes beyond record %d of %q; it has %d bytes, so send at most that", f.Sub, *f.At, f.From, length)
	case f.Sub < length:
		fork.Cut = uint32(f.Sub)
	}
	return nil
}

// forkedAs tells whether a stream began as a fork that is asked for, or as none.
func forkedAs(have *stream.Fork, want *stream.ForkRequest) bool {
	if have == nil || want == nil {
		return have == nil && want == nil
	}
	return have.From == want.From && have.Sub == want.Sub && (want.At == nil || *want.At == have.At)
}

// forkRefusal is what Apply has against a fork, or nil when it is something else.
// The parent was looked up just before, so all of it is the news of a moment.
func forkRefusal(create *commands.Create, f *stream.ForkRequest, res *statemachine.AppendResult) error {
	switch res.Verdict {
	case statemachine.ParentDeleted:
		return parentDeleted(f.From)
	case statemachine.Trimmed:
		return forkTrimmed(f, res.Start)
	case statemachine.BeyondTail:
		return forkBeyond(f, res.Tail)
	case statemachine.Full:
		if create.Fork != nil && res.ID == create.Fork.Parent {
			return stream.Errorf(stream.CodeTooLarge, "the stream %q has as many forks as can be counted", f.From)
		}
	default:
	}
	return nil
}

func parentDeleted(name stream.Name) *stream.Error {
	return stream.Errorf(stream.CodeConflict, "the stream %q was deleted and cannot be forked; fork one of its forks", name)
}

func forkTrimmed(f *stream.ForkRequest, start stream.Offset) *stream.Error {
	err := stream.Errorf(stream.CodeTrimmed, "record %d of %q was trimmed away, so no fork can begin there; the earliest is %d", *f.At, f.From, start)
	err.Start = start
	return err
}

func forkBeyond(f *stream.ForkRequest, tail stream.Offset) *stream.Error {
	err := stream.Errorf(stream.CodeBeyondTail, "the fork would end beyond the tail %d of %q; fork at the tail or below", tail, f.From)
	err.Tail = tail
	return err
}

// nameKept refuses a create under the name of a deleted stream.
func nameKept(name stream.Name) *stream.Error {
	return stream.Errorf(stream.CodeConflict, "the stream %q was deleted, but forks of it live and keep its name; delete them first, or use another name", name)
}
