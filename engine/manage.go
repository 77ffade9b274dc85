package engine

import (
	"context"
	"strings"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// Trim drops the records below an offset, clamped to the tail. Trimming below
// the start changes nothing.
func (e *Engine) Trim(ctx context.Context, name stream.Name, to stream.Offset) (stream.Info, error) {
	st, out, err := e.decideOn(ctx, name, func(id stream.ID) commands.Command { return &commands.Trim{ID: id, To: to} })
	if err != nil {
		return stream.Info{}, err
	}
	trimmed := info(&st, 0)
	trimmed.Start, trimmed.Tail, trimmed.Closed = out.Start, out.Tail, out.Closed
	return trimmed, nil
}

// Delete removes a stream. Its name is free when Delete returns, unless forks of
// it live.
func (e *Engine) Delete(ctx context.Context, name stream.Name) error {
	_, _, err := e.decideOn(ctx, name, func(id stream.ID) commands.Command { return &commands.Delete{ID: id} })
	return err
}

// decideOn proposes a command about the stream that a name is bound to, and
// returns what Apply answered to it. When the stream went meanwhile the name may
// be bound anew: it is looked up again.
func (e *Engine) decideOn(ctx context.Context, name stream.Name, command func(stream.ID) commands.Command) (st statemachine.Stream, _ *statemachine.AppendResult, err error) {
	var out outcome
	for range maxResubmits {
		if st, err = e.settled(ctx, name); err != nil {
			return st, nil, err
		}
		if out = e.decide(ctx, command(st.ID)); out.err != nil {
			return st, nil, out.err
		}
		if out.result.Verdict == statemachine.Accepted {
			return st, &out.result, nil
		}
		if out.result.Verdict != statemachine.NotFound {
			break
		}
	}
	return st, nil, refusal(name, nil, &out.result)
}

// Head describes a stream. It does not restart a sliding expiry.
func (e *Engine) Head(ctx context.Context, name stream.Name) (stream.Info, error) {
	stale, err := e.observe(ctx)
	if err != nil {
		return stream.Info{}, err
	}
	st, err := e.lookup(ctx, name, 0, stale)
	if err != nil {
		return stream.Info{}, err
	}
	return info(&st, stale), nil
}

// Inspect describes a stream for its operator, also one that was deleted while
// forks of it live.
func (e *Engine) Inspect(ctx context.Context, name stream.Name) (stream.Detail, error) {
	stale, err := e.observe(ctx)
	if err != nil {
		return stream.Detail{}, err
	}
	st, ok := e.replica.View().Lookup(name)
	if !ok || e.due(&st) {
		return stream.Detail{}, refuse(stale, notFound(name))
	}
	return stream.Detail{Info: info(&st, stale), Deleted: st.Deleted, Extents: st.Extents}, nil
}

// List is a page of streams in the byte order of their names. Streams that look
// expired are left out, and deleted ones that forks keep.
func (e *Engine) List(ctx context.Context, r stream.ListRequest) (stream.Page, error) {
	stale, err := e.observe(ctx)
	if err != nil {
		return stream.Page{}, err
	}
	view := e.replica.View()
	var page stream.Page
	after := r.StartAfter
	// One beyond the limit tells whether there are more.
	for more := true; more && len(page.Streams) <= r.Limit; {
		var batch []statemachine.Stream
		batch, more = view.List(r.Prefix, after, r.Limit+1-len(page.Streams))
		if page.Streams == nil {
			page.Streams = make([]stream.Info, 0, len(batch))
		}
		for i := range batch {
			after = batch[i].Name
			if strings.HasPrefix(string(after), r.Prefix) && !batch[i].Deleted && !e.due(&batch[i]) {
				page.Streams = append(page.Streams, info(&batch[i], stale))
			}
		}
	}
	if len(page.Streams) > r.Limit {
		page.Streams, page.More = page.Streams[:r.Limit], true
	}
	return page, nil
}
