package engine

import (
	"context"
	"errors"
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
	if err := checkCreate(name, r); err != nil {
		return stream.Created{}, err
	}
	if r.Fork != nil { // which may have to read its parent's records; what else waits has bounds of its own
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.cfg.AppendTimeout)
		defer cancel()
	}
	for range maxResubmits {
		made, again, err := e.tryCreate(ctx, name, r)
		if !again {
			return made, err
		}
	}
	return stream.Created{}, stream.Errorf(stream.CodeUnavailable, "the stream %q was deleted and created again while %q was forked from it; "+
		"nothing was written, try again", r.Fork.From, name)
}

// tryCreate creates once. again says that the parent went after it was looked
// up: its name may be bound anew.
func (e *Engine) tryCreate(ctx context.Context, name stream.Name, r *stream.CreateRequest) (made stream.Created, again bool, err error) {
	stale, err := e.observeLog(ctx)
	if err != nil {
		return made, false, err
	}
	if st, ok := e.replica.View().Lookup(name); ok && !e.due(&st) {
		made, err = existing(&st, r, stale)
		return made, false, err
	}
	create := &commands.Create{Name: name, Config: r.Config, Closed: r.Closed}
	config, err := e.resolve(ctx, create, r, stale)
	if err != nil {
		return made, false, err
	}
	records, err := recordsOf(r, config.ContentType)
	if err != nil {
		return made, false, err
	}
	var out outcome
	if len(records) == 0 {
		out = e.decide(ctx, create)
	} else {
		out = e.submit(ctx, &pending{
			Append: blobwal.Append{Name: name, JSON: stream.IsJSON(config.ContentType), Records: records}, create: create,
		})
	}
	if out.err != nil {
		return made, false, out.err
	}
	if out.result.Verdict == statemachine.ParentGone {
		return made, true, nil
	}
	made, err = e.created(create, config, r.Fork, &out)
	return made, false, err
}

func checkCreate(name stream.Name, r *stream.CreateRequest) error {
	c := &r.Config
	switch {
	case len(c.ContentType) > stream.MaxContentType:
		return stream.Errorf(stream.CodeBadRequest, "the content type has %d bytes; at most %d are allowed", len(c.ContentType), stream.MaxContentType)
	case c.Expiry.TTL > stream.MaxTTL:
		return stream.Errorf(stream.CodeBadRequest, "a TTL of %d seconds is too long; at most %d are allowed", c.Expiry.TTL, stream.MaxTTL)
	case c.Retention.Age > stream.MaxTTL:
		return stream.Errorf(stream.CodeBadRequest, "a retention of %d seconds is too long; at most %d are allowed", c.Retention.Age, stream.MaxTTL)
	case c.Retention.Bytes > stream.MaxRetentionBytes:
		return stream.Errorf(stream.CodeBadRequest, "a retention of %d bytes is too much; at most %d are allowed", c.Retention.Bytes, stream.MaxRetentionBytes)
	case r.Fork != nil:
		return checkFork(name, r.Fork)
	}
	return nil
}

// resolve fills in what a create leaves to a default or to the parent, and
// returns the configuration that the stream will have.
func (e *Engine) resolve(ctx context.Context, create *commands.Create, r *stream.CreateRequest, stale time.Duration) (stream.Config, error) {
	if r.Fork != nil {
		config, err := e.resolveFork(ctx, create, r.Fork)
		var refused *stream.Error
		if errors.As(err, &refused) {
			err = refuse(stale, refused)
		}
		return config, err
	}
	if create.Config.ContentType == "" {
		create.Config.ContentType = stream.DefaultContentType
	}
	return create.Config, nil
}

// recordsOf are the first records of a stream of a content type.
func recordsOf(r *stream.CreateRequest, contentType string) ([]stream.Record, error) {
	if r.Parse != nil {
		return r.Parse(contentType)
	}
	if stream.IsJSON(contentType) && !r.JSONChecked {
		return r.Records, checkJSON(r.Records)
	}
	return r.Records, nil
}

// existing answers a create of a name that is taken.
func existing(st *statemachine.Stream, want *stream.CreateRequest, stale time.Duration) (stream.Created, error) {
	switch {
	case st.Deleted:
		return stream.Created{}, refuse(stale, nameKept(st.Name))
	case !configured(st, want):
		return stream.Created{}, refuse(stale, conflict(st.Name))
	case stale > 0:
		return stream.Created{}, refuse(stale, stream.Errorf(stream.CodeConflict, "the stream %q exists", st.Name))
	default:
		return stream.Created{Info: info(st, 0)}, nil
	}
}

// configured tells whether a stream is what a create asks for.
func configured(st *statemachine.Stream, want *stream.CreateRequest) bool {
	config := want.Config
	if config.ContentType == "" && want.Fork == nil {
		config.ContentType = stream.DefaultContentType
	}
	return st.Config.Meets(config, want.Fork != nil) && st.Closed == want.Closed && forkedAs(st.Fork, want.Fork)
}

func conflict(name stream.Name) *stream.Error {
	return stream.Errorf(stream.CodeConflict, "the stream %q exists with another configuration (content type, expiry, retention, closed state or fork origin); "+
		"use the same, or delete it first", name)
}

// created turns the result of a create into its answer.
func (e *Engine) created(create *commands.Create, config stream.Config, fork *stream.ForkRequest, out *outcome) (stream.Created, error) {
	res := &out.result
	made := stream.Created{New: res.Verdict == statemachine.Accepted}
	st, ok := e.replica.View().Stream(res.ID)
	switch res.Verdict {
	case statemachine.Accepted, statemachine.Exists:
	case statemachine.Deleted:
		return stream.Created{}, nameKept(create.Name)
	default:
		if err := forkRefusal(create, fork, res); err != nil {
			return stream.Created{}, err
		}
		return stream.Created{}, refusal(create.Name, nil, res)
	}
	made.Info = stream.Info{
		ID: res.ID, Name: create.Name, Config: config, Created: out.time,
		Start: res.Start, Tail: res.Tail, Closed: res.Closed, Fork: st.Fork,
	}
	if ok && !made.New {
		made.Info = info(&st, 0)
	}
	return made, nil
}
