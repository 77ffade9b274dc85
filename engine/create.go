package engine

import (
	"context"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// Create makes a stream, with its first records if there are any, or finds
// that it exists with the same configuration. A stream that exists is found in
// the view, so repeating a create costs neither a put nor a row.
func (e *Engine) Create(ctx context.Context, name stream.Name, r *stream.CreateRequest) (stream.Created, error) {
	want := *r
	if want.Config.ContentType == "" {
		want.Config.ContentType = stream.DefaultContentType
	}
	if err := checkCreate(&want); err != nil {
		return stream.Created{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AppendTimeout)
	defer cancel()
	stale, err := e.observeLog(ctx)
	if err != nil {
		return stream.Created{}, err
	}
	if st, ok := e.replica.View().Lookup(name); ok && !e.due(&st) {
		return existing(&st, &want, stale)
	}
	create := &commands.Create{Name: name, Config: want.Config, Closed: want.Closed}
	var out outcome
	if len(want.Records) == 0 {
		out = e.decide(ctx, create)
	} else {
		a := &blobwal.Append{Name: name, JSON: stream.IsJSON(want.Config.ContentType), Records: want.Records}
		out = e.submit(ctx, a, &pending{create: create})
	}
	if out.err != nil {
		return stream.Created{}, out.err
	}
	return e.created(create, &out)
}

func checkCreate(r *stream.CreateRequest) error {
	c := &r.Config
	switch {
	case len(c.ContentType) > stream.MaxContentType:
		return stream.Errorf(stream.CodeBadRequest, "the content type has %d bytes; at most %d are allowed", len(c.ContentType), stream.MaxContentType)
	case c.Expiry.TTL > stream.MaxTTL:
		return stream.Errorf(stream.CodeBadRequest, "a TTL of %d seconds is too long; at most %d are allowed", c.Expiry.TTL, stream.MaxTTL)
	case stream.IsJSON(c.ContentType) && !r.JSONChecked:
		return checkJSON(r.Records)
	}
	return nil
}

// existing answers a create of a name that is taken.
func existing(st *statemachine.Stream, want *stream.CreateRequest, stale time.Duration) (stream.Created, error) {
	if stale > 0 {
		return stream.Created{}, refuse(stale, conflict(st.Name))
	}
	same := stream.MediaType(st.Config.ContentType) == stream.MediaType(want.Config.ContentType) &&
		st.Config.Expiry == want.Config.Expiry && st.Closed == want.Closed
	if !same {
		return stream.Created{}, conflict(st.Name)
	}
	return stream.Created{Info: info(st, 0)}, nil
}

func conflict(name stream.Name) *stream.Error {
	return stream.Errorf(stream.CodeConflict, "the stream %q exists with another configuration (content type, expiry or closed state); "+
		"use the same, or delete it first", name)
}

// created turns the result of a create into its answer.
func (e *Engine) created(create *commands.Create, out *outcome) (stream.Created, error) {
	res := &out.result
	switch res.Verdict {
	case statemachine.Accepted, statemachine.Exists:
	default:
		return stream.Created{}, refusal(create.Name, nil, res)
	}
	made := stream.Created{New: res.Verdict == statemachine.Accepted}
	made.Info = stream.Info{
		ID: res.ID, Name: create.Name, Config: create.Config, Created: out.time,
		Start: res.Start, Tail: res.Tail, Closed: res.Closed,
	}
	if st, ok := e.replica.View().Stream(res.ID); ok && !made.New {
		made.Info = info(&st, 0)
	}
	return made, nil
}
